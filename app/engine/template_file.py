"""The chat template of a server that does not tell its own."""

from __future__ import annotations

from app.engine.base import Gap
from app.engine.server_settings import ServerSettings
from app.errors import SettingsError


def read_template(settings: ServerSettings) -> str | None:
    """The text of the template file that is set; None where none is. Raises SettingsError where it cannot be read."""
    if settings.template is None:
        return None
    try:
        return settings.template.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"The chat template {settings.template} cannot be read: {error}.",
            "It is the file chat_template.jinja of the model's folder.",
        ) from error


NO_TEMPLATE = Gap(
    "chat_template",
    "not told by the server",
    "rendering conversations as the model was trained on: plain ChatML is used (--template names chat_template.jinja)",
)
