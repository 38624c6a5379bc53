"""Links into a folder what `pip install` of one distribution brings, and nothing else.

usage: python bare.py FOLDER WHEEL, with an interpreter that has the dependencies.
"""

import sys
import zipfile
from collections.abc import Iterator
from email.parser import HeaderParser
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def requirements(wheel: Path) -> list[Requirement]:
    """What a wheel says that it requires."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = HeaderParser().parsestr(archive.read(name).decode("utf-8"))
    return [Requirement(text) for text in metadata.get_all("Requires-Dist", [])]


def closure(wanted: list[Requirement]) -> dict[str, Distribution]:
    """Distributions that would be installed, by name: those required, and what they require."""
    reached: dict[tuple[str, str], Distribution] = {}
    todo = [(requirement, "") for requirement in wanted]
    while todo:
        requirement, extra = todo.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        for chosen in ("", *requirement.extras):
            if (name, chosen) not in reached:
                reached[name, chosen] = package = distribution(name)
                todo += [(Requirement(text), chosen) for text in package.requires or []]
    return {name: package for (name, _), package in reached.items()}


def entries(package: Distribution) -> Iterator[Path]:
    """Files and folders at the top of site-packages that belong to a distribution."""
    site = Path(str(package.locate_file("")))
    names = {file.parts[0] for file in package.files or [] if file.parts[0] != ".."}
    return (site / name for name in sorted(names - {"__pycache__", "bin"}))


def main(folder: str, wheel: str) -> None:
    """Fill the folder with links."""
    packages = closure(requirements(Path(wheel)))
    for package in packages.values():
        for path in entries(package):
            link = Path(folder) / path.name
            if path.exists() and not link.exists():
                link.symlink_to(path)
    print(f"{len(packages)} distributions: {', '.join(sorted(packages))}")


if __name__ == "__main__":
    main(*sys.argv[1:])
