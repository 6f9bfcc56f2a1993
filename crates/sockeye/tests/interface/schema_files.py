"""Checks the schemas of a folder with Python's jsonschema: FOLDER RENDERED.

Each is valid, each reference resolves, real documents in RENDERED follow them, and an unknown key does not.
"""

import copy
import json
import sys
from pathlib import Path

from jsonschema import Draft202012Validator
from referencing import Registry, Resource

folder, rendered = map(Path, sys.argv[1:])
schemas = {path.name: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
registry = Registry().with_resources(
    (name, Resource.from_contents(schema)) for name, schema in schemas.items()
)


def references(value):
    if isinstance(value, dict):
        for key, child in value.items():
            if key == "$ref" and isinstance(child, str):
                yield child
            else:
                yield from references(child)
    elif isinstance(value, list):
        for child in value:
            yield from references(child)


def validator(reference):
    return Draft202012Validator({"$ref": reference}, registry=registry)


for name, schema in schemas.items():
    Draft202012Validator.check_schema(schema)
    resolver = registry.resolver(base_uri=name)
    for reference in references(schema):
        resolver.lookup(reference)

for command in "sockets", "flows":
    name = f"{command}.schema.json"
    document = json.loads((rendered / f"{command}.json").read_text())
    validator(name).validate(document)
    for line in (rendered / f"{command}.jsonl").read_text().splitlines():
        value = json.loads(line)
        validator(f"{name}#/$defs/line").validate(value)
    assert "summary" in value, f"no summary at the end of {command}.jsonl"
    wrong = copy.deepcopy(document)
    wrong[command][0]["no_such_key"] = 1
    assert not validator(name).is_valid(wrong), f"{name} lets an unknown key through"

print(len(schemas), "schemas")
