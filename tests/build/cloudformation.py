"""Reads `template.yaml` as plain values: `!Ref X` becomes `{"Ref": "X"}`, and so on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
TEMPLATE = ROOT / "template.yaml"

Json = dict[str, Any]


class _Loader(yaml.SafeLoader):
    """Safe YAML and CloudFormation's short forms."""


def _intrinsic(loader: _Loader, suffix: str, node: yaml.Node) -> Json:
    value: Any
    if isinstance(node, yaml.ScalarNode):
        value = loader.construct_scalar(node)
        if suffix == "GetAtt":
            value = value.split(".", 1)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        assert isinstance(node, yaml.MappingNode)
        value = loader.construct_mapping(node, deep=True)
    return {suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}": value}


_Loader.add_multi_constructor("!", _intrinsic)


def read_template(path: Path = TEMPLATE) -> Json:
    template: Json = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    return template


class Template:
    """Questions about a template."""

    def __init__(self, document: Json) -> None:
        self.document = document
        self.resources: dict[str, Json] = document["Resources"]

    def of_type(self, *types: str) -> dict[str, Json]:
        """Return the properties of all resources of these types, by logical id."""
        return {
            name: resource.get("Properties", {})
            for name, resource in self.resources.items()
            if resource["Type"] in types
        }

    @property
    def functions(self) -> dict[str, Json]:
        return self.of_type("AWS::Serverless::Function")

    @property
    def globals(self) -> Json:
        found: Json = self.document["Globals"]["Function"]
        return found

    def folder(self, function: str) -> str:
        """Return the folder below `functions/` that a function is built from."""
        return Path(self.functions[function]["CodeUri"]).name

    def queue_events(self) -> Iterator[tuple[str, str, Json]]:
        """Yield function, logical id of the queue, and properties of every SQS trigger."""
        for name, function in self.functions.items():
            for event in function.get("Events", {}).values():
                if event["Type"] == "SQS":
                    yield name, target(event["Properties"]["Queue"]), event["Properties"]

    def statements(self) -> Iterator[tuple[str, Json]]:
        """Yield every statement of every permissions policy, with the logical id of what holds it."""
        for name, properties in self.resources.items():
            body = properties.get("Properties", {})
            documents = [body["PolicyDocument"]] if "PolicyDocument" in body else []
            documents += [policy["PolicyDocument"] for policy in body.get("Policies", [])]
            for document in documents:
                for statement in document["Statement"]:
                    yield name, statement

    def statements_of(self, function: str) -> list[Json]:
        """Return what a function may do: the statements of its role and of the policies that are attached to it."""
        role = target(self.functions[function]["Role"])
        attached = {
            name for entry in self.resources[role]["Properties"].get("ManagedPolicyArns", []) for name in refs(entry)
        }
        return [statement for holder, statement in self.statements() if holder == role or holder in attached]


def target(value: Json) -> str:
    """Return the logical id that a `!Ref` or `!GetAtt` points at."""
    if "Ref" in value:
        return str(value["Ref"])
    return str(value["Fn::GetAtt"][0])


def refs(value: Any) -> set[str]:
    """Return every logical id that a value refers to, at any depth."""
    if isinstance(value, dict):
        found = {str(value["Ref"])} if "Ref" in value else set()
        if "Fn::GetAtt" in value:
            found.add(str(value["Fn::GetAtt"][0]))
        return found.union(*(refs(inner) for inner in value.values()))
    if isinstance(value, list):
        return set().union(*(refs(inner) for inner in value))
    return set()


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def written(value: Any) -> str:
    """Return one text of a value, to be looked through."""
    return json.dumps(value, sort_keys=True)
