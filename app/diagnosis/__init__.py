"""WHY: the verdict and its rule, the noise floor."""
