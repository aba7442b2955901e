"""Prints a SAM template as CloudFormation would see it; run by the Python of `.venv-sam`, with the file as argument.

`sam deploy` uploads artifacts and puts their S3 addresses into the template; here the addresses are made up.
"""

import json
import os
import sys
from pathlib import Path

os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")

from samtranslator.translator.transform import transform  # type: ignore[import-not-found]
from samtranslator.yaml_helper import yaml_parse  # type: ignore[import-not-found]

UPLOADED = {"AWS::Serverless::Function": "CodeUri", "AWS::Serverless::LayerVersion": "ContentUri"}


class NoManagedPolicies:
    """AWS's managed policies by name; the template uses none."""

    def load(self):
        return {}


template = yaml_parse(Path(sys.argv[1]).read_text(encoding="utf-8"))
for name, resource in template["Resources"].items():
    if resource["Type"] in UPLOADED:
        resource["Properties"][UPLOADED[resource["Type"]]] = f"s3://artifacts/{name}"
json.dump(transform(template, {}, NoManagedPolicies()), sys.stdout)
