"""A bill of materials in the wheel (PEP 770: `.dist-info/sboms/`), in CycloneDX's JSON; a build hook of hatchling.

It is made from pyproject.toml alone, so that the wheel of the sdist is the same file. The wheel contains no other
project's code: components are requirements, without versions, which are decided at installation. Their ranges are
properties.
"""

from __future__ import annotations

import json
import re
import tempfile
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SPEC_VERSION = "1.6"
FILE_NAME = "barnabas.cdx.json"
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "pkg:pypi/barnabas")
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)\s*(?:\[[^]]*\])?\s*(.*)")


class SbomHook(BuildHookInterface):  # type: ignore[type-arg]  # the configuration of a target, which is not used
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel" or version != "standard":
            return
        core = self.metadata.core
        document = bill_of_materials(
            core.name, self.metadata.version, core.dependencies, core.optional_dependencies, core.description
        )
        path = Path(tempfile.mkdtemp(prefix="sbom-")) / FILE_NAME
        path.write_text(json.dumps(document, indent=1) + "\n")
        build_data["sbom_files"].append(str(path))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        for each in build_data.get("sbom_files", ()):
            Path(each).unlink(missing_ok=True)
            Path(each).parent.rmdir()


def bill_of_materials(
    name: str,
    version: str,
    required: Sequence[str],
    optional: Mapping[str, Sequence[str]],
    description: str = "",
) -> dict[str, Any]:
    """A CycloneDX document of a package and its requirements. `optional`: requirements by extra."""
    root = f"pkg:pypi/{name}@{version}"
    components = _components(name, required, optional)
    document: dict[str, Any] = {
        "$schema": f"http://cyclonedx.org/schema/bom-{SPEC_VERSION}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": SPEC_VERSION,
        "version": 1,
        "metadata": {
            "lifecycles": [{"phase": "build"}],
            "component": {
                "type": "application",
                "bom-ref": root,
                "name": name,
                "version": version,
                "description": description,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
                "purl": root,
            },
        },
        "components": components,
        "dependencies": [{"ref": root, "dependsOn": [each["bom-ref"] for each in components]}],
    }
    serial = uuid.uuid5(_NAMESPACE, json.dumps(document, sort_keys=True))
    return {"serialNumber": f"urn:uuid:{serial}", **document}


def _components(
    name: str, required: Iterable[str], optional: Mapping[str, Sequence[str]]
) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for extra, requirements in [("", required), *sorted(optional.items())]:
        for requirement in requirements:
            package, specifier = _parsed(requirement)
            if package == name or extra == "dev":  # the extras of another extra; tools of developers
                continue
            purl = f"pkg:pypi/{package}"
            component = found.setdefault(
                package,
                {
                    "type": "library",
                    "bom-ref": purl,
                    "name": package,
                    "purl": purl,
                    "scope": "optional" if extra else "required",
                    "properties": [],
                },
            )
            where = f"requirement:{extra}" if extra else "requirement"
            component["properties"].append({"name": f"barnabas:{where}", "value": specifier or "any"})
    return [found[package] for package in sorted(found)]


def _parsed(requirement: str) -> tuple[str, str]:
    """The normalized name and the version specifier."""
    matched = _REQUIREMENT.match(requirement)
    assert matched is not None, requirement
    return re.sub(r"[-_.]+", "-", matched[1]).lower(), matched[2].strip()
