"""The stack as a user deploys it: what `make build` made, `sam deploy`, and questions about what came of it."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
from functools import cached_property
from pathlib import Path
from typing import Any

import boto3

from tests.build.cloudformation import Template, read_template
from tests.e2e.emulator import CREDENTIALS, E2E_BIN, REGION, ROOT, Emulator

BUILT = ROOT / ".aws-sam" / "build"
NATIVE = ROOT / ".venv-e2e" / "native"
SAM = ROOT / ".venv-sam" / "bin" / "sam"
AGENTS = Path(__file__).with_name("deployed_agents.py")

NAME = "perdure-e2e"
DEPLOY_SECONDS = 240

UNKNOWN_TO_MINISTACK = {"AWS::ApiGatewayV2::RouteResponse"}
"""Types that it refuses. Its WebSocket routes answer without a route response; AWS's do not."""

CONCURRENCY = 2
"""Steps of a kind at a time: each is a process that unpacks its layers first. 180 at once on two cores never begin."""

SERVICES = {"apigatewaymanagementapi", "dynamodb", "s3", "scheduler", "secretsmanager", "sqs"}
"""What our functions call (`perdure.aws.clients`)."""

TAGS = {"application": "perdure", "team": "tests"}

JsonObject = dict[str, Any]


def artifacts(folder: Path, *, version: str = "1") -> Path:
    """Copy what was built, as far as ministack can take it, and return the template's path.

    Six things differ from what goes to AWS: machine code is this machine's (the same locked packages), our test
    agents lie beside the user's, what ministack can't make is left out (`UNKNOWN_TO_MINISTACK`, metric math), the
    ceiling of concurrent steps is `CONCURRENCY` and no reference, layers hold bytecode, because every cold start of
    some thirty would compile them anew, and botocore describes only `SERVICES`, because each would unpack the other
    1,900 files.
    """
    if folder.exists():
        shutil.rmtree(folder)
    shutil.copytree(BUILT, folder)
    layers = folder / "DependenciesLayer" / "python"
    for theirs in [*layers.rglob("*.cpython-313-aarch64-linux-gnu.so"), *layers.rglob("*.abi3.so")]:
        ours = theirs.relative_to(layers).with_name(theirs.name.replace("aarch64", platform.machine()))
        theirs.unlink()
        shutil.copy2(NATIVE / ours, layers / ours)
    for described in (layers / "botocore" / "data").iterdir():
        if described.is_dir() and described.name not in SERVICES:
            shutil.rmtree(described)
    module = folder / "AgentsLayer" / "python" / AGENTS.name
    module.write_text(AGENTS.read_text(encoding="utf-8").replace('VERSION = "1"', f'VERSION = "{version}"'))
    compiled = [str(folder / layer) for layer in ("DependenciesLayer", "RuntimeLayer", "AgentsLayer")]
    compiling = [str(E2E_BIN / "python"), "-m", "compileall", "-q", "-j2", "--invalidation-mode", "unchecked-hash"]
    subprocess.run([*compiling, *compiled], check=True, timeout=120)
    template = folder / "template.yaml"
    template.write_text(json.dumps(without_unknown(read_template(template))), encoding="utf-8")
    return template


def left_out(document: JsonObject) -> set[str]:
    """Return the logical ids of what ministack can't make."""
    return {
        name
        for name, resource in document["Resources"].items()
        if resource["Type"] in UNKNOWN_TO_MINISTACK
        or (resource["Type"] == "AWS::CloudWatch::Alarm" and "Metrics" in resource["Properties"])
    }


def without_unknown(document: JsonObject) -> JsonObject:
    unknown = left_out(document)
    kept = {name: dict(resource) for name, resource in document["Resources"].items() if name not in unknown}
    for resource in kept.values():
        if "DependsOn" in resource:
            resource["DependsOn"] = [name for name in resource["DependsOn"] if name not in unknown]
        for event in resource.get("Properties", {}).get("Events", {}).values():
            if "ScalingConfig" in event["Properties"]:  # it would compare the parameter's text with a number
                event["Properties"]["ScalingConfig"] = {"MaximumConcurrency": CONCURRENCY}
    return {**document, "Resources": kept}


class Stack:
    """The one stack of a run."""

    def __init__(self, emulator: Emulator, parameters: dict[str, str]) -> None:
        self._emulator = emulator
        self._parameters = parameters
        self.template = Template(read_template(BUILT / "template.yaml"))
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
            **CREDENTIALS,
            "AWS_ENDPOINT_URL": emulator.url,
            "SAM_CLI_TELEMETRY": "0",
        }

    def client(self, service: str) -> Any:
        """Return a boto3 client of the emulator, past the injector."""
        make: Any = boto3.client
        return make(
            service,
            region_name=REGION,
            endpoint_url=self._emulator.url,
            aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        )

    def deploy(self, template: Path, **parameters: str) -> None:
        """Run `sam deploy` to its end, as `docs/operations.md` tells it."""
        self._parameters |= parameters
        overrides = [f"{name}={value}" for name, value in self._parameters.items()]
        self._sam(
            ["deploy", "--template-file", str(template), "--resolve-s3", "--no-progressbar"],
            ["--capabilities", "CAPABILITY_IAM", "--no-confirm-changeset", "--no-fail-on-empty-changeset"],
            ["--parameter-overrides", *overrides],
            ["--tags", *(f"{name}={value}" for name, value in TAGS.items())],
        )
        self.__dict__.pop("ids", None)
        self.__dict__.pop("outputs", None)

    def delete(self) -> None:
        """Run `sam delete`."""
        self._sam(["delete", "--no-prompts"])

    def _sam(self, *arguments: list[str]) -> None:
        command = [str(SAM), *(word for words in arguments for word in words)]
        command += ["--stack-name", NAME, "--region", REGION]
        done = subprocess.run(
            command, env=self._environment, capture_output=True, text=True, timeout=DEPLOY_SECONDS, check=False
        )
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"

    # --- what there is ---------------------------------------------------------------------------------------------

    @cached_property
    def ids(self) -> dict[str, str]:
        """Physical ids by logical id."""
        found = self.client("cloudformation").describe_stack_resources(StackName=NAME)["StackResources"]
        return {resource["LogicalResourceId"]: resource["PhysicalResourceId"] for resource in found}

    @cached_property
    def outputs(self) -> dict[str, str]:
        """The outputs of the stack, by name."""
        stack = self.client("cloudformation").describe_stacks(StackName=NAME)["Stacks"][0]
        return {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}

    def save_logs(self, folder: Path) -> None:
        """Write what functions have logged, one file a log group."""
        logs = self.client("logs")
        for group in logs.describe_log_groups(logGroupNamePrefix=f"/perdure/{NAME}/")["logGroups"]:
            name = group["logGroupName"]
            pages = logs.get_paginator("filter_log_events").paginate(logGroupName=name)
            lines = [event["message"] for page in pages for event in page["events"]]
            (folder / f"{name.rpartition('/')[2]}.log").write_text("\n".join(lines), encoding="utf-8")

    def status(self) -> str | None:
        """Return the stack's status; None: there is no stack."""
        cloudformation = self.client("cloudformation")
        try:
            return str(cloudformation.describe_stacks(StackName=NAME)["Stacks"][0]["StackStatus"])
        except cloudformation.exceptions.ClientError:
            return None
