"""Which files and folders are no documents: secrets, hidden ones, other programs' stores.

They are left out by their names alone, without being opened.
"""

from __future__ import annotations

import re
from fnmatch import translate
from pathlib import Path

SECRET = "secret"
HIDDEN = "hidden"
PROGRAM = "made by a program"


def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, patterns)))


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


SECRET_FOLDERS = _names(
    ".git .hg .svn .ssh .gnupg .aws .azure .kube .docker .password-store .gcloud"
)
SECRET_FILES = _names(
    ".env .env.* *.env .envrc .netrc _netrc .pgpass .npmrc .pypirc .htpasswd .git-credentials"
    " *.pem *.key *.p12 *.pfx *.jks *.keystore *.kdbx *.kdb *.ppk *.asc *.gpg *.pgp *.ovpn"
    " id_rsa* id_dsa* id_ecdsa* id_ed25519* *_rsa *_ed25519 ssh_host_*_key*"
    " credentials credentials.* credential.* client_secret*.json service-account*.json"
    " service_account*.json secret.json secrets.json secret.y*ml secrets.y*ml secrets.toml"
    " secrets.ini secrets.txt *.tfstate *.tfvars *.agekey passwords passwords.* wallet.dat *.1pif"
    " *.keychain *.keychain-db known_hosts authorized_keys shadow htpasswd"
)
PROGRAM_FOLDERS = _names(
    "node_modules __pycache__ venv site-packages bower_components $RECYCLE.BIN lost+found"
)
PROGRAM_FILES = _names(
    "~$* *.swp *.swo *~ #*# *.tmp *.part *.crdownload *.pyc *.min.js *.min.css *.js.map *.css.map"
    " package-lock.json yarn.lock pnpm-lock.yaml poetry.lock Cargo.lock uv.lock"
)
"""Files that stand beside one that is being edited or fetched, and what nobody writes by hand."""

_SECRET, _PROGRAM = _any_of(SECRET_FILES), _any_of(PROGRAM_FILES)


def folder_reason(path: Path) -> str:
    """Why a folder is left out with all that it holds; empty: it is not."""
    name = path.name
    if name.lower() in SECRET_FOLDERS:
        return SECRET
    if name in PROGRAM_FOLDERS or name.endswith((".egg-info", ".app", ".photoslibrary")):
        return PROGRAM
    return HIDDEN if name.startswith(".") else ""


def file_reason(name: str) -> str:
    """Why a file is left out; empty: it is not."""
    lower = name.lower()
    if _SECRET.match(lower):
        return SECRET
    if _PROGRAM.match(name):
        return PROGRAM
    return HIDDEN if name.startswith(".") else ""
