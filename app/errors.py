"""What can go wrong and be explained to a person.

    AppError                  one sentence for a person, and a hint what to do
    ├── EngineError           the engine cannot do what was asked
    │   ├── ModelFileError    the model file is missing, cut short, or of a kind this build cannot run
    │   ├── ContextOverflow   the prompt does not fit the context: an outcome of a trajectory, not a failure
    │   ├── ServerRefused     a server answered with an error status
    │   └── EngineDied        the engine's process ended, or its connection broke, in the middle of something
    ├── StoreError            the file of data cannot be read or written
    ├── WorkloadError         an episode, a template or an import cannot be used
    ├── BundleError           a bundle cannot be written or read
    └── SettingsError         a setting has a value that cannot be used

Anything else that is raised is a bug, and is shown as one.
"""


class AppError(Exception):
    """A known error: `message` is a sentence for a person, `hint` says what to do about it (may be empty)."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class EngineError(AppError):
    """The engine cannot do what was asked."""


class ModelFileError(EngineError):
    """The model file is missing, cut short, or of a kind that this build cannot run."""


class ContextOverflow(EngineError):
    """The prompt does not fit the context. An outcome of the trajectory, not a failure of the run."""


class ServerRefused(EngineError):
    """A server answered with an error: `status` is the HTTP status, `body` the text that came with it."""

    def __init__(self, message: str, hint: str = "", *, status: int, body: str = "") -> None:
        super().__init__(message, hint)
        self.status = status
        self.body = body


class EngineDied(EngineError):
    """The engine's process ended, or its connection broke, in the middle of something."""


class StoreError(AppError):
    """The file of data cannot be read or written."""


class WorkloadError(AppError):
    """An episode, a chat template or an imported conversation cannot be used."""


class BundleError(AppError):
    """A bundle cannot be written or read."""


class SettingsError(AppError):
    """A setting has a value that cannot be used."""
