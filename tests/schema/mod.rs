//! Every line against docs/json-schema.json.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A failure here fails the test.

use std::sync::OnceLock;

use jsonschema::Validator;
use serde_json::Value;

fn schema() -> &'static Validator {
    static SCHEMA: OnceLock<Validator> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        let schema: Value =
            serde_json::from_str(include_str!("../../docs/json-schema.json")).unwrap();
        jsonschema::meta::validate(&schema).expect("the schema is one itself");
        jsonschema::draft202012::new(&schema).expect("the schema can be used")
    })
}

/// The lines as values. Each one must be as the schema says, `meta` the first and `end` the last.
pub(crate) fn lines(text: &str) -> Vec<Value> {
    let lines = values(text);
    let is = |line: Option<&Value>, kind: &str| line.is_some_and(|line| line["type"] == kind);
    assert!(is(lines.first(), "meta") && is(lines.last(), "end"), "{text}");
    lines
}

/// The lines as values, in any order.
pub(crate) fn values(text: &str) -> Vec<Value> {
    assert!(text.ends_with('\n'), "the last line is cut off: {text}");
    text.lines()
        .map(|line| {
            let value =
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            let errors: Vec<String> =
                schema().iter_errors(&value).map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "{line}\nis not as the schema says: {errors:#?}");
            value
        })
        .collect()
}
