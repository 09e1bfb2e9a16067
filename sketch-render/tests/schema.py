#!/usr/bin/env python3
"""Validates JSON files against a JSON Schema: schema.py SCHEMA FILE…, one line for each finding."""

import json
import sys

import jsonschema

schema = json.load(open(sys.argv[1], encoding="utf-8"))
validator = jsonschema.validators.validator_for(schema)
validator.check_schema(schema)
found = 0
for name in sys.argv[2:]:
    with open(name, encoding="utf-8") as file:
        for error in validator(schema).iter_errors(json.load(file)):
            print(f"{name}: {error.json_path}: {error.message[:200]}")
            found += 1
sys.exit(found > 0)
