"""The theme as Qt takes it: palette, style sheet and fonts. The views' own painting takes its colours from `Theme`."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QFont, QFontDatabase, QPalette
from PySide6.QtWidgets import QApplication

from app import paths
from app.views.theme import DARK, LIGHT, Theme

TEXT_SCALES = (0.85, 1.0, 1.15, 1.3, 1.5, 1.75, 2.0)
FALLBACK_FAMILIES = ("DejaVu Sans", "Noto Sans")


def choose_theme(application: QApplication, choice: str) -> Theme:
    """`choice` is "light", "dark" or "auto": auto follows the system, light where it does not say."""
    if choice == "auto":
        dark = application.styleHints().colorScheme() is Qt.ColorScheme.Dark
        return DARK if dark else LIGHT
    return DARK if choice == "dark" else LIGHT


def ui_font(text_scale: float = 1.0) -> QFont:
    """The system's own font, with families behind it that have the marks ◆ ● ○ ▸, scaled."""
    font = QFontDatabase.systemFont(QFontDatabase.SystemFont.GeneralFont)
    font.setFamilies([*font.families(), *FALLBACK_FAMILIES])
    size = font.pointSizeF() if font.pointSizeF() > 0 else 9.0
    font.setPointSizeF(size * text_scale)
    return font


def apply_theme(application: QApplication, theme: Theme, text_scale: float) -> None:
    """Dress the whole application."""
    if application.style().name() != "fusion":
        application.setStyle("Fusion")
    application.setFont(ui_font(text_scale))
    application.setPalette(palette(theme))
    application.setStyleSheet(style_sheet(theme))


def palette(theme: Theme) -> QPalette:
    """Colours for everything that no style sheet reaches."""
    roles = {
        QPalette.ColorRole.Window: theme.window,
        QPalette.ColorRole.WindowText: theme.text,
        QPalette.ColorRole.Base: theme.panel,
        QPalette.ColorRole.AlternateBase: theme.block,
        QPalette.ColorRole.Text: theme.text,
        QPalette.ColorRole.PlaceholderText: theme.faint,
        QPalette.ColorRole.Button: theme.button,
        QPalette.ColorRole.ButtonText: theme.text,
        QPalette.ColorRole.BrightText: theme.fork,
        QPalette.ColorRole.ToolTipBase: theme.block,
        QPalette.ColorRole.ToolTipText: theme.text,
        QPalette.ColorRole.Highlight: theme.selection,
        QPalette.ColorRole.HighlightedText: theme.text,
        QPalette.ColorRole.Link: theme.cached,
        QPalette.ColorRole.LinkVisited: theme.cached,
        QPalette.ColorRole.Mid: theme.line,
        QPalette.ColorRole.Dark: theme.line,
        QPalette.ColorRole.Light: theme.block,
        QPalette.ColorRole.Midlight: theme.line,
        QPalette.ColorRole.Shadow: theme.line,
        QPalette.ColorRole.Accent: theme.cached,
    }
    made = QPalette()
    for role, colour in roles.items():
        made.setColor(role, QColor(colour))
    for role in (QPalette.ColorRole.Text, QPalette.ColorRole.WindowText, QPalette.ColorRole.ButtonText):
        made.setColor(QPalette.ColorGroup.Disabled, role, QColor(theme.faint))
    return made


def style_sheet(theme: Theme) -> str:
    """What the Fusion style draws too heavily: flat buttons, thin lines, quiet scroll bars. No font sizes."""
    check, down, up = (
        (paths.resources_dir() / f"{name}-{theme.name}.svg").as_posix() for name in ("check", "down", "up")
    )
    return f"""
QMenuBar, QStatusBar {{ background: {theme.menu}; color: {theme.muted}; }}
QMenuBar {{ padding: 2px 4px; border: 0; }}
QMenuBar::item {{ padding: 4px 10px; border-radius: 4px; background: transparent; }}
QMenuBar::item:selected {{ background: {theme.selection}; color: {theme.text}; }}
QMenu {{ background: {theme.panel}; border: 1px solid {theme.line}; padding: 4px; }}
QMenu::item {{ padding: 5px 22px 5px 22px; border-radius: 4px; }}
QMenu::item:selected {{ background: {theme.selection}; color: {theme.text}; }}
QMenu::item:disabled {{ color: {theme.faint}; }}
QMenu::separator {{ height: 1px; background: {theme.line}; margin: 4px 8px; }}
QStatusBar {{ border-top: 1px solid {theme.line}; }}
QStatusBar::item {{ border: 0; }}
QStatusBar QLabel {{ color: {theme.muted}; padding: 3px 8px; }}
QStatusBar[flash="true"] {{ background: {theme.near_tie}; }}
#toolbar {{ border-bottom: 1px solid {theme.line}; }}
#toolbar QLabel {{ color: {theme.muted}; }}
#recorded {{ color: {theme.near_tie_text}; background: {theme.near_tie}; border-radius: 4px; padding: 2px 8px; }}
QPushButton, QToolButton {{ background: {theme.button}; border: 1px solid {theme.line}; border-radius: 6px;
    padding: 5px 12px; color: {theme.text}; }}
QPushButton:hover, QToolButton:hover {{ background: {theme.selection}; }}
QPushButton:pressed, QToolButton:pressed {{ background: {theme.line}; }}
QPushButton:focus, QToolButton:focus {{ border-color: {theme.cached}; }}
QPushButton:default {{ border-color: {theme.cached}; }}
QPushButton:disabled, QToolButton:disabled {{ color: {theme.faint}; background: transparent; }}
QPushButton[primary="true"] {{ background: {theme.cached}; border-color: {theme.cached}; color: {theme.window}; }}
QPushButton[primary="true"]:disabled {{ background: transparent; border-color: {theme.line}; color: {theme.faint}; }}
QLineEdit, QPlainTextEdit {{ background: {theme.block}; color: {theme.text};
    border: 1px solid {theme.line}; border-radius: 5px; padding: 3px 7px; }}
QLineEdit:focus, QPlainTextEdit:focus {{ border-color: {theme.cached}; }}
QLineEdit:disabled {{ color: {theme.faint}; }}
QSpinBox, QDoubleSpinBox, QComboBox {{ background: {theme.block}; color: {theme.text}; min-height: 22px;
    border: 1px solid {theme.line}; border-radius: 5px; padding: 1px 4px 1px 7px; }}
QSpinBox:focus, QDoubleSpinBox:focus, QComboBox:focus, QComboBox:on {{ border-color: {theme.cached}; }}
QSpinBox:disabled, QDoubleSpinBox:disabled, QComboBox:disabled {{ color: {theme.faint}; }}
QComboBox::drop-down {{ subcontrol-origin: padding; subcontrol-position: center right; width: 20px; border: 0; }}
QComboBox::down-arrow {{ image: url("{down}"); width: 10px; height: 10px; }}
QAbstractSpinBox::up-button, QAbstractSpinBox::down-button {{ subcontrol-origin: border; width: 18px; border: 0; }}
QAbstractSpinBox::up-button {{ subcontrol-position: top right; }}
QAbstractSpinBox::down-button {{ subcontrol-position: bottom right; }}
QAbstractSpinBox::up-arrow {{ image: url("{up}"); width: 8px; height: 8px; }}
QAbstractSpinBox::down-arrow {{ image: url("{down}"); width: 8px; height: 8px; }}
QAbstractSpinBox::up-arrow:off, QAbstractSpinBox::down-arrow:off {{ image: none; }}
QCheckBox::indicator {{ width: 13px; height: 13px; border: 1px solid {theme.faint}; border-radius: 3px;
    background: {theme.block}; }}
QCheckBox::indicator:checked {{ border-color: {theme.cached}; background: {theme.cached};
    image: url("{check}"); }}
QCheckBox::indicator:focus, QRadioButton::indicator:focus {{ border-color: {theme.cached}; }}
QRadioButton::indicator {{ width: 13px; height: 13px; border: 1px solid {theme.faint}; border-radius: 7px;
    background: {theme.block}; }}
QRadioButton::indicator:checked {{ width: 5px; height: 5px; border: 5px solid {theme.cached};
    background: {theme.window}; }}
QCheckBox:disabled, QRadioButton:disabled {{ color: {theme.faint}; }}
QCheckBox::indicator:checked:disabled {{ border-color: {theme.faint}; background: {theme.faint}; }}
#qt_spinbox_lineedit {{ background: transparent; border: 0; padding: 0; }}
QTabBar::tab {{ padding: 5px 12px; border: 0; border-bottom: 2px solid transparent; color: {theme.muted};
    background: transparent; }}
QTabBar::tab:selected {{ border-bottom-color: {theme.cached}; color: {theme.text}; }}
QTabBar::tab:focus {{ color: {theme.cached}; }}
QTabWidget::pane {{ border: 0; border-top: 1px solid {theme.line}; }}
QComboBox QAbstractItemView {{ background: {theme.panel}; border: 1px solid {theme.line};
    selection-background-color: {theme.selection}; selection-color: {theme.text}; }}
QProgressBar {{ background: {theme.block}; border: 0; border-radius: 4px; max-height: 8px; }}
QProgressBar::chunk {{ background: {theme.cached}; border-radius: 4px; }}
QSplitter::handle {{ background: {theme.line}; }}
QScrollArea {{ border: 0; background: transparent; }}
QScrollBar:vertical {{ background: transparent; width: 11px; margin: 0; }}
QScrollBar:horizontal {{ background: transparent; height: 11px; margin: 0; }}
QScrollBar::handle {{ background: {theme.prefill_alternate}; border-radius: 4px; margin: 2px; }}
QScrollBar::handle:vertical {{ min-height: 28px; }}
QScrollBar::handle:horizontal {{ min-width: 28px; }}
QScrollBar::handle:hover {{ background: {theme.prefill}; }}
QScrollBar::add-line, QScrollBar::sub-line {{ width: 0; height: 0; }}
QScrollBar::add-page, QScrollBar::sub-page {{ background: transparent; }}
QHeaderView::section {{ background: {theme.panel}; color: {theme.muted}; border: 0;
    border-bottom: 1px solid {theme.line}; padding: 4px 6px; }}
QTableView {{ border: 0; background: {theme.panel}; gridline-color: transparent;
    selection-background-color: {theme.selection}; selection-color: {theme.text}; }}
QListWidget {{ border: 1px solid {theme.line}; border-radius: 5px; background: {theme.block};
    selection-background-color: {theme.selection}; selection-color: {theme.text}; }}
QTextBrowser {{ border: 0; background: {theme.panel}; }}
QToolTip {{ background: {theme.block}; color: {theme.text}; border: 1px solid {theme.line}; padding: 4px; }}
QGroupBox {{ border: 1px solid {theme.line}; border-radius: 6px; margin-top: 9px; padding: 8px; }}
QGroupBox::title {{ subcontrol-origin: margin; left: 10px; padding: 0 4px; color: {theme.muted}; }}
#banner {{ background: {theme.fork_fill}; border-bottom: 1px solid {theme.fork}; }}
#banner[kind="notice"] {{ background: {theme.near_tie}; border-bottom: 1px solid {theme.near_tie_text}; }}
#banner[kind="whole"] {{ background: {theme.selection}; border-bottom: 1px solid {theme.cached}; }}
#bar {{ background: {theme.menu}; border-bottom: 1px solid {theme.line}; }}
*[role="title"] {{ font-weight: 600; }}
*[role="muted"] {{ color: {theme.muted}; }}
*[role="problem"] {{ color: {theme.fork}; }}
*[role="rule"] {{ background: {theme.line}; border: 0; }}
*[role="good"] {{ color: {theme.equal}; }}
*[role="doubt"] {{ color: {theme.near_tie_text}; }}
*[role="link"] {{ background: transparent; border: 0; color: {theme.cached}; text-align: left; padding: 2px 0; }}
"""
