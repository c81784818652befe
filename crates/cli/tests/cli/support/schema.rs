//! The published schemas of the JSON output.

use std::fs;

use jsonschema::Validator;
use serde_json::Value;

/// A schema in `docs/schema`.
pub struct Schema {
    root: Value,
    validator: Validator,
}

impl Schema {
    /// The schema of the output of this command.
    #[track_caller]
    pub fn of(command: &str) -> Self {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema");
        let path = format!("{folder}/{command}.schema.json");
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let root: Value = serde_json::from_str(&text).unwrap();
        let validator = jsonschema::validator_for(&root);
        let validator = validator.unwrap_or_else(|error| panic!("{path}: {error}"));
        Self { root, validator }
    }

    /// The part of the schema at a JSON pointer.
    #[track_caller]
    pub fn at(&self, pointer: &str) -> &Value {
        let part = self.root.pointer(pointer);
        part.unwrap_or_else(|| panic!("the schema has no {pointer}"))
    }

    /// The whole schema.
    pub fn root(&self) -> &Value {
        &self.root
    }

    /// The mistakes in an output: wrong types, missing keys, and keys without description.
    pub fn faults(&self, output: &Value) -> Vec<String> {
        let errors = self.validator.iter_errors(output);
        let mut faults: Vec<String> = errors
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        self.undescribed(vec![&self.root], output, "", &mut faults);
        faults
    }

    /// Asserts that an output is valid, and that each of its keys is described.
    #[track_caller]
    pub fn assert_describes(&self, output: &Value) {
        let faults = self.faults(output);
        assert!(faults.is_empty(), "{faults:#?} in {output:#}");
    }

    /// Adds the keys of `output` that none of these schemas describes.
    fn undescribed(
        &self,
        schemas: Vec<&Value>,
        output: &Value,
        place: &str,
        faults: &mut Vec<String>,
    ) {
        let schemas = self.with_references(schemas);
        match output {
            Value::Object(fields) => {
                for (key, value) in fields {
                    let place = format!("{place}/{key}");
                    let described = of_key(&schemas, key);
                    if described.is_empty() {
                        faults.push(format!("{place}: it is not described"));
                    } else {
                        self.undescribed(described, value, &place, faults);
                    }
                }
            }
            Value::Array(items) => {
                let described = under(&schemas, "items");
                for (index, item) in items.iter().enumerate() {
                    let place = format!("{place}/{index}");
                    self.undescribed(described.clone(), item, &place, faults);
                }
            }
            _ => {}
        }
    }

    /// These schemas, and all that they refer to or contain.
    fn with_references<'a>(&'a self, mut left: Vec<&'a Value>) -> Vec<&'a Value> {
        let mut found = Vec::new();
        while let Some(schema) = left.pop() {
            found.push(schema);
            if let Some(reference) = schema["$ref"].as_str() {
                let pointer = reference.strip_prefix('#').expect("it is within the file");
                left.push(self.at(pointer));
            }
            for key in ["anyOf", "oneOf", "allOf"] {
                left.extend(schema[key].as_array().into_iter().flatten());
            }
        }
        found
    }
}

/// The schemas of the values of this key.
fn of_key<'a>(schemas: &[&'a Value], key: &str) -> Vec<&'a Value> {
    let properties = schemas.iter().map(|schema| &schema["properties"]);
    let named: Vec<&Value> = properties.filter_map(|all| all.get(key)).collect();
    match named.is_empty() {
        true => under(schemas, "additionalProperties"),
        false => named,
    }
}

/// The schemas that these have under a keyword.
fn under<'a>(schemas: &[&'a Value], keyword: &str) -> Vec<&'a Value> {
    let schemas = schemas.iter().map(|schema| &schema[keyword]);
    schemas.filter(|schema| schema.is_object()).collect()
}
