//! Writes what a static rlat is made of, as a CycloneDX 1.5 document: crates with versions, licences and sums,
//! and which needs which.
//!
//! ```text
//! cargo metadata --locked --filter-platform TARGET --format-version 1 | sbom Cargo.lock LINKED >rlat.cdx.json
//! ```
//!
//! `LINKED` has the crates that are linked, a line each that begins with `NAME vVERSION`, as cargo-tree(1) prints
//! them: cargo-metadata(1) also lists what only the tests need, and has features on for them.
//!
//! An example, so that what it needs is no part of rlat. `scripts/package` runs it. The same sources make the
//! same bytes: there is no time in it, and no serial number.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

use serde_json::{Value, json};

fn main() -> io::Result<()> {
    let mut files = std::env::args_os().skip(1);
    let (Some(lock), Some(linked)) = (files.next(), files.next()) else {
        return Err(io::Error::other("sbom Cargo.lock LINKED <METADATA"));
    };
    let metadata: Value = serde_json::from_reader(io::stdin())?;
    let (lock, linked) = (std::fs::read_to_string(lock)?, std::fs::read_to_string(linked)?);
    let linked = linked.lines().filter_map(|line| {
        let mut words = line.split(' ');
        Some((words.next()?.to_owned(), words.next()?.strip_prefix('v')?.to_owned()))
    });
    let document = document(&metadata, &sums(&lock), &linked.collect());
    println!("{document:#}");
    Ok(())
}

/// The sums of all crates, by name and version, as `Cargo.lock` has them.
fn sums(lock: &str) -> BTreeMap<(String, String), String> {
    let value = |part: &str, key: &str| {
        let line = part.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""));
        line.and_then(|line| line.strip_suffix('"')).map(ToOwned::to_owned)
    };
    let packages = lock.split("[[package]]").filter_map(|part| {
        Some(((value(part, "name")?, value(part, "version")?), value(part, "checksum")?))
    });
    packages.collect()
}

fn document(
    metadata: &Value,
    sums: &BTreeMap<(String, String), String>,
    linked: &BTreeSet<(String, String)>,
) -> Value {
    let list = |value: &'_ Value| value.as_array().cloned().unwrap_or_default();
    let packages: BTreeMap<String, Value> =
        list(&metadata["packages"]).into_iter().map(|one| (text(&one["id"]), one)).collect();
    let nodes: BTreeMap<String, Value> = list(&metadata["resolve"]["nodes"])
        .into_iter()
        .map(|one| (text(&one["id"]), one))
        .collect();
    let is_linked = |id: &String| {
        let package = &packages[id];
        linked.contains(&(text(&package["name"]), text(&package["version"])))
    };
    let needs = |id: &str| -> Vec<String> {
        let all = list(&nodes[id]["deps"]);
        let at_run_time = all.iter().filter(|dependency| {
            list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null())
        });
        at_run_time.map(|dependency| text(&dependency["pkg"])).filter(is_linked).collect()
    };
    let root = text(&metadata["resolve"]["root"]);
    let mut parts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut left = vec![root.clone()];
    while let Some(id) = left.pop() {
        if let Entry::Vacant(part) = parts.entry(id) {
            let needed = needs(part.key());
            left.extend(needed.iter().cloned());
            part.insert(needed);
        }
    }
    let reference = |id: &String| {
        let package = &packages[id];
        format!("pkg:cargo/{}@{}", text(&package["name"]), text(&package["version"]))
    };
    let component = |id: &String| {
        let package = &packages[id];
        let (name, version) = (text(&package["name"]), text(&package["version"]));
        let licence = text(&package["license"]).replace(" / ", " OR ").replace('/', " OR ");
        let mut component = json!({
            "type": "library",
            "bom-ref": reference(id),
            "purl": reference(id),
            "name": name,
            "version": version,
            "licenses": [{ "expression": licence }],
        });
        if let Some(sum) = sums.get(&(name, version)) {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
        }
        component
    };
    let mut itself = component(&root);
    itself["type"] = json!("application");
    let beside = [
        ("rust-std", "MIT OR Apache-2.0", "Rust's standard library, with what it is made of"),
        ("musl", "MIT", "the C library that comes with Rust's target"),
    ]
    .map(|(name, licence, what)| {
        json!({
            "type": "library",
            "bom-ref": name,
            "name": name,
            "description": what,
            "licenses": [{ "expression": licence }],
        })
    });
    let mut components: Vec<Value> =
        parts.keys().filter(|id| **id != root).map(component).collect();
    components.extend(beside);
    let dependencies: Vec<Value> = parts
        .iter()
        .map(|(id, needed)| {
            let mut needed: Vec<String> = needed.iter().map(reference).collect();
            if *id == root {
                needed.extend(["rust-std".to_owned(), "musl".to_owned()]);
            }
            json!({ "ref": reference(id), "dependsOn": needed })
        })
        .collect();
    json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": itself },
        "components": components,
        "dependencies": dependencies,
    })
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
