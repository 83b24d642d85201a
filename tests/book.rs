//! The book in `docs/` does not rot: what its commands print is compared with what it says they print.
//!
//! How a chapter is written, see `docs/README.md`. `RLAT_CHAPTER=03` runs the chapters that begin so.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // All of this file is tests.

mod requirements;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const RLAT: &str = env!("CARGO_BIN_EXE_rlat");
const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// What stands for anything: alone on a line, for any lines.
const ANYTHING: &str = "...";

/// A part of a chapter that means something to this test.
#[derive(Debug)]
enum Part {
    /// A file for the commands after it.
    File { name: String, content: String },
    /// A command, whether it needs to be root, what it prints, and its line in the chapter.
    Command { text: String, root: bool, output: Vec<String>, line: usize },
}

/// The fenced blocks of a chapter: a file where `<!-- file: NAME -->` stands before it, and else commands
/// if it is a `console`.
fn parts(chapter: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut lines = chapter.lines().enumerate();
    let mut file: Option<String> = None;
    while let Some((_, line)) = lines.next() {
        let marked = line.strip_prefix("<!-- file: ").and_then(|rest| rest.strip_suffix(" -->"));
        if let Some(name) = marked {
            file = Some(name.to_owned());
        }
        let Some(language) = line.strip_prefix("```") else { continue };
        let block: Vec<(usize, &str)> =
            lines.by_ref().take_while(|(_, line)| *line != "```").collect();
        if let Some(name) = file.take() {
            let content = block.iter().flat_map(|(_, line)| [*line, "\n"]).collect();
            parts.push(Part::File { name, content });
        } else if language == "console" {
            parts.extend(commands(&block));
        }
    }
    parts
}

fn commands(block: &[(usize, &str)]) -> Vec<Part> {
    let mut commands = Vec::new();
    for (index, line) in block {
        let command = line.strip_prefix("$ ").map(|text| (text, false));
        let command = command.or_else(|| line.strip_prefix("# ").map(|text| (text, true)));
        if let Some((text, root)) = command {
            let (text, output, line) = (text.to_owned(), Vec::new(), index + 1);
            commands.push(Part::Command { text, root, output, line });
        } else {
            let Some(Part::Command { output, .. }) = commands.last_mut() else {
                panic!("line {} is the output of no command", index + 1)
            };
            output.push((*line).trim_end().to_owned());
        }
    }
    commands
}

/// Whether a line is as the book has it, `...` standing for anything.
fn fits(expected: &str, line: &str) -> bool {
    let mut pieces = expected.split(ANYTHING);
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    let mut last = None;
    for piece in pieces {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
        last = Some(piece);
    }
    match last {
        None => rest.is_empty(),
        Some(last) => last.is_empty() || rest.is_empty() || line.ends_with(last),
    }
}

fn all_fit(expected: &[String], lines: &[&str]) -> bool {
    match expected.split_first() {
        None => lines.is_empty(),
        Some((first, others)) if first == ANYTHING => {
            (0..=lines.len()).any(|skipped| all_fit(others, &lines[skipped..]))
        }
        Some((first, others)) => {
            lines.first().is_some_and(|line| fits(first, line)) && all_fit(others, &lines[1..])
        }
    }
}

/// A folder for the commands of a chapter, from which the source is to be seen.
fn folder(chapter: &Path) -> PathBuf {
    let name = chapter.file_stem().unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("book").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    for part in ["tests", "src", "docs"] {
        symlink(Path::new(ROOT).join(part), folder.join(part)).unwrap();
    }
    folder
}

fn run(text: &str, folder: &Path) -> String {
    let own = Path::new(RLAT).parent().unwrap().display().to_string();
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new("bash")
        .args(["-c", &format!("exec 2>&1; {text}")])
        .current_dir(folder)
        .env("PATH", format!("{own}:{path}:/usr/sbin:/sbin"))
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Programs of other packages that commands of the book use.
const TOOLS: [(&str, &str); 4] = [
    ("strace", "strace"),
    ("bpftool", "bpftool"),
    ("llvm-objdump", "llvm"),
    ("readelf", "binutils"),
];

/// Whether a command can be run here.
fn can_run(text: &str, root: bool) -> bool {
    let words: Vec<&str> = text.split([' ', '|', ';', '(', ')']).collect();
    TOOLS
        .iter()
        .filter(|(tool, _)| words.contains(tool))
        .all(|(tool, package)| requirements::tool(tool, package))
        && (!root || requirements::bpf())
}

#[test]
fn the_commands_print_what_the_book_says() {
    let wanted = std::env::var("RLAT_CHAPTER").unwrap_or_default();
    let mut chapters: Vec<PathBuf> = fs::read_dir(Path::new(ROOT).join("docs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    chapters.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    chapters.sort();
    let trimmed = |mut lines: Vec<String>| {
        while lines.last().is_some_and(String::is_empty) {
            lines.pop();
        }
        lines
    };
    let (mut run_commands, mut wrong) = (0, Vec::new());
    for chapter in &chapters {
        let name = chapter.file_name().unwrap().to_string_lossy().into_owned();
        if !name.starts_with(&wanted) {
            continue;
        }
        let folder = folder(chapter);
        for part in parts(&fs::read_to_string(chapter).unwrap()) {
            match part {
                Part::File { name, content } => fs::write(folder.join(name), content).unwrap(),
                Part::Command { text, root, output, line } => {
                    if !can_run(&text, root) {
                        break;
                    }
                    run_commands += 1;
                    let printed = run(&text, &folder);
                    let lines = printed.lines().map(|line| line.trim_end().to_owned()).collect();
                    let (output, lines) = (trimmed(output), trimmed(lines));
                    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
                    if !all_fit(&output, &lines) {
                        let output = output.join("\n");
                        wrong.push(format!(
                            "docs/{name}:{line}: {text}\n--- the book\n{output}\n--- here\n{printed}"
                        ));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(run_commands > 0 || !requirements::bpf());
}

#[test]
fn every_rejection_has_a_worked_example() {
    let catalogue = fs::read_to_string(Path::new(ROOT).join("docs/07-rejections.md")).unwrap();
    for entry in fs::read_dir(Path::new(ROOT).join("tests/data/verifier")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "s") {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            assert!(
                catalogue.contains(&format!("verifier/{name}")),
                "{name} is not in the catalogue"
            );
        }
    }
}

#[test]
fn links_between_chapters_lead_somewhere() {
    for entry in fs::read_dir(Path::new(ROOT).join("docs")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap_or_default();
            if file.is_empty() || file.contains("://") {
                continue;
            }
            assert!(path.parent().unwrap().join(file).exists(), "{}: {link}", path.display());
        }
    }
}

#[test]
fn the_crate_leads_to_every_chapter() {
    let root = Path::new(ROOT);
    let told = fs::read_to_string(root.join("src/lib.rs")).unwrap();
    let contents = fs::read_to_string(root.join("docs/README.md")).unwrap();
    let chapters = contents.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
    let files = chapters
        .flat_map(|line| line.split("](").skip(1))
        .map(|rest| format!("docs/{}", rest.split(')').next().unwrap()));
    for file in files {
        assert!(told.contains(&format!("`{file}`")), "src/lib.rs does not name {file}");
    }
    for file in told.split('`').filter(|word| word.starts_with("docs/")) {
        assert!(root.join(file).exists(), "src/lib.rs names {file}");
    }
}

#[test]
fn dots_stand_for_anything() {
    assert!(fits("id ..., 5", "id 12, 5") && !fits("id ..., 5", "id 12, 6"));
    assert!(fits("a...", "abc") && fits("...c", "abc") && !fits("abc", "abcd"));
    let expected = ["a", "...", "z"].map(str::to_owned);
    assert!(all_fit(&expected, &["a", "z"]) && all_fit(&expected, &["a", "b", "c", "z"]));
    assert!(!all_fit(&expected, &["a", "b"]));
}
