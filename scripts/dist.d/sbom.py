"""A list of the binary's components in CycloneDX 1.5: the crates with their hashes and licences, the standard library and musl.

Written here, because cargo-cyclonedx writes one file into the folder of each crate, with the paths of the machine in it: no two
machines would make the same bytes.
"""

import json
import uuid

import components
from release import SUMMARY

# Programs that run during the build and leave no code: macros and build scripts.
BUILD_KINDS = (None, "build")


def make(release, files, into):
    path = into / f"sockeye-{release.version}-{release.architecture}.cdx.json"
    path.write_text(json.dumps(document(release), indent=1) + "\n")
    return path


def document(release):
    linked = components.packages(release)
    everything = components.packages(release, BUILD_KINDS)
    checksums = components.checksums(release)
    ids = {package["id"] for package in linked}
    main = next(package for package in linked if package["name"] == "sockeye")
    entries = [component(package, checksums, package["id"] in ids) for package in everything if package is not main]
    parts = toolchain(release)
    reference = {package["id"]: purl(package) for package in everything}
    edges = [
        {"ref": reference[package["id"]],
         "dependsOn": [reference[id] for id in components.depends_on(release, package, everything)]}
        for package in everything
    ]
    for edge in edges:
        if edge["ref"] == purl(main):
            edge["dependsOn"] += [part["bom-ref"] for part in parts]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        # The same contents have the same number.
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([entries, parts, release.epoch, release.architecture]))}",
        "version": 1,
        "metadata": {
            "timestamp": release.time.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "application", "bom-ref": purl(main), "name": "sockeye", "version": release.version, "description": SUMMARY,
                "licenses": [{"expression": main["license"]}], "purl": purl(main),
                "properties": [{"name": "architecture", "value": release.architecture}],
            },
        },
        "components": entries + parts,
        "dependencies": edges + [{"ref": part["bom-ref"]} for part in parts],
    }


def component(package, checksums, is_linked):
    entry = {
        "type": "library", "bom-ref": purl(package), "name": package["name"], "version": package["version"],
        "scope": "required" if is_linked else "excluded",
        # cargo also takes "MIT/Apache-2.0", which is no SPDX expression.
        "licenses": [{"expression": package["license"].replace("/", " OR ")}],
        "purl": purl(package),
    }
    if checksum := checksums.get((package["name"], package["version"])):
        entry["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return entry


def toolchain(release):
    versions = components.toolchain(release)
    std = {"type": "library", "bom-ref": f"rust-std@{versions['std']}", "name": "rust-std", "version": versions["std"],
           "scope": "required", "licenses": [{"expression": "MIT OR Apache-2.0"}]}
    musl = {"type": "library", "bom-ref": "musl", "name": "musl", "scope": "required", "licenses": [{"expression": "MIT"}]}
    if versions["musl"]:
        musl |= {"bom-ref": f"musl@{versions['musl']}", "version": versions["musl"]}
    return [std, musl]


def purl(package):
    return f"pkg:cargo/{package['name']}@{package['version'].replace('+', '%2B')}"
