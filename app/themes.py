"""Colours: a calm dark and light theme and two of high contrast. It knows no widget."""

from __future__ import annotations

from textual.theme import Theme

DARK = Theme(
    name="localchat-dark",
    primary="#8fb7d9",
    secondary="#7d92a8",
    accent="#e0b074",
    foreground="#d7dae0",
    background="#14171c",
    surface="#191d23",
    panel="#20252d",
    boost="#ffffff08",
    success="#8fbf8f",
    warning="#d9b26f",
    error="#e08880",
    dark=True,
    variables={
        "border": "#e0b074",
        "border-blurred": "#39414d",
        "block-cursor-foreground": "#14171c",
        "block-cursor-background": "#e0b074",
        "block-cursor-text-style": "none",
        "input-cursor-background": "#e0b074",
        "input-cursor-foreground": "#14171c",
        "input-selection-background": "#8fb7d9 30%",
        "scrollbar": "#39414d",
        "scrollbar-background": "#14171c",
        "scrollbar-hover": "#566170",
        "scrollbar-active": "#e0b074",
        "scrollbar-corner-color": "#14171c",
        "faint": "#7f8896",
        "rule": "#39414d",
    },
)

LIGHT = Theme(
    name="localchat-light",
    primary="#2c5f8a",
    secondary="#5c6b7a",
    accent="#9a5b12",
    foreground="#24292f",
    background="#fbfaf7",
    surface="#f4f2ed",
    panel="#eae7e0",
    boost="#00000008",
    success="#2f6f3a",
    warning="#8a5a00",
    error="#a8322a",
    dark=False,
    variables={
        "border": "#9a5b12",
        "border-blurred": "#cfcac0",
        "block-cursor-foreground": "#fbfaf7",
        "block-cursor-background": "#9a5b12",
        "block-cursor-text-style": "none",
        "input-cursor-background": "#9a5b12",
        "input-cursor-foreground": "#fbfaf7",
        "input-selection-background": "#2c5f8a 25%",
        "scrollbar": "#cfcac0",
        "scrollbar-background": "#fbfaf7",
        "scrollbar-hover": "#a9a396",
        "scrollbar-active": "#9a5b12",
        "scrollbar-corner-color": "#fbfaf7",
        "faint": "#6b7280",
        "rule": "#cfcac0",
    },
)

CONTRAST_DARK = Theme(
    name="localchat-contrast-dark",
    primary="#66ccff",
    secondary="#ffffff",
    accent="#ffd700",
    foreground="#ffffff",
    background="#000000",
    surface="#000000",
    panel="#1a1a1a",
    boost="#ffffff15",
    success="#66ff66",
    warning="#ffd700",
    error="#ff8080",
    dark=True,
    text_alpha=1.0,
    variables={
        "border": "#ffd700",
        "border-blurred": "#ffffff",
        "block-cursor-foreground": "#000000",
        "block-cursor-background": "#ffd700",
        "block-cursor-text-style": "bold",
        "input-cursor-background": "#ffd700",
        "input-cursor-foreground": "#000000",
        "input-selection-background": "#0060c0",
        "scrollbar": "#ffffff",
        "scrollbar-background": "#000000",
        "scrollbar-hover": "#ffd700",
        "scrollbar-active": "#ffd700",
        "scrollbar-corner-color": "#000000",
        "faint": "#e0e0e0",
        "rule": "#ffffff",
    },
)

CONTRAST_LIGHT = Theme(
    name="localchat-contrast-light",
    primary="#003c8f",
    secondary="#000000",
    accent="#8b0000",
    foreground="#000000",
    background="#ffffff",
    surface="#ffffff",
    panel="#e8e8e8",
    boost="#00000012",
    success="#005000",
    warning="#6b4300",
    error="#a00000",
    dark=False,
    text_alpha=1.0,
    variables={
        "border": "#8b0000",
        "border-blurred": "#000000",
        "block-cursor-foreground": "#ffffff",
        "block-cursor-background": "#8b0000",
        "block-cursor-text-style": "bold",
        "input-cursor-background": "#8b0000",
        "input-cursor-foreground": "#ffffff",
        "input-selection-background": "#9cc4ff",
        "scrollbar": "#000000",
        "scrollbar-background": "#ffffff",
        "scrollbar-hover": "#8b0000",
        "scrollbar-active": "#8b0000",
        "scrollbar-corner-color": "#ffffff",
        "faint": "#303030",
        "rule": "#000000",
    },
)

THEMES: tuple[Theme, ...] = (DARK, LIGHT, CONTRAST_DARK, CONTRAST_LIGHT)

NAMES = {
    "dark": DARK.name,
    "light": LIGHT.name,
    "contrast": CONTRAST_DARK.name,
    "contrast-dark": CONTRAST_DARK.name,
    "contrast-light": CONTRAST_LIGHT.name,
}
"""Short names of the settings."""


def theme_name(setting: str, known: frozenset[str]) -> str:
    """The registered theme for a name from the settings; the dark one where it is unknown."""
    name = NAMES.get(setting, setting)
    return name if name in known else DARK.name
