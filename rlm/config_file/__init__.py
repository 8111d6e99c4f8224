"""The settings files: which there are, which of them speak for the user, and what they set.

The user's own file and the file of `--config` may set everything. `rlm.toml` in the working folder may be the
work of a stranger: without `rlm trust` it may only lower limits and set what can do no harm.
"""

from rlm.config_file.loading import FileSettings, FolderSettings, Setting, load_settings
from rlm.config_file.settings_file import FILE_NAME, SettingsFile, read_folder_file, settings_files
from rlm.config_file.trusted_folders import TrustedFolder, TrustedFolders
from rlm.config_file.user_folder import user_config_folder

__all__ = [
    "FILE_NAME",
    "FileSettings",
    "FolderSettings",
    "Setting",
    "SettingsFile",
    "TrustedFolder",
    "TrustedFolders",
    "load_settings",
    "read_folder_file",
    "settings_files",
    "user_config_folder",
]
