"""Build hook: puts the libraries that the client stands on, and the licence, into its sdist and its wheel."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Libraries(BuildHookInterface):
    """Adds the folders of `libraries`; from the checkout around client/, or from an sdist that holds them."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add them, but for an editable install (`version`): that one reads the checkout."""
        if version == "editable":
            return
        root = Path(self.root)
        is_sdist = (root / "libs").is_dir()
        above = root if is_sdist else root.parent
        for name, place in self.config["libraries"].items():
            if not (above / place).is_dir():
                raise FileNotFoundError(
                    f"{above / place}: the client is built in a checkout of Gantry, or from its sdist"
                )
            build_data["force_include"][str(above / place)] = place if self.target_name == "sdist" else name
        if self.target_name == "sdist":
            build_data["force_include"][str(above / "LICENSE")] = "LICENSE"
        elif not is_sdist:  # there it is found without being named
            build_data["extra_metadata"][str(above / "LICENSE")] = "LICENSE"
