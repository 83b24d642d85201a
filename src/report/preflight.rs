//! What `rlat check` found, as text and as JSON.
//!
//! Both escape what comes from outside, such as the distribution's name, with [`escape`].

use std::fmt::Write as _;

use serde::Serialize;

use crate::escape::escape;
use crate::preflight::{Preflight, Question, Verdict};

/// A line for each question: what it is about, the answer, and more about it.
pub fn text(preflight: &Preflight) -> String {
    let report = Report::new(preflight);
    let mut text = String::new();
    // Writing to a string cannot fail.
    for (about, fact) in [
        ("kernel", &report.kernel),
        ("architecture", &report.architecture),
        ("distribution", &report.distribution),
    ] {
        let answer = if fact.is_some() { YES } else { COULD_NOT_TELL };
        push_line(&mut text, about, answer, fact.as_deref().unwrap_or_default());
    }
    for question in &report.questions {
        let detail = match &question.next {
            Some(next) => format!("{}; {next}", question.detail),
            None => question.detail.clone(),
        };
        push_line(&mut text, question.about, question.answer, &detail);
    }
    let (answer, detail) = match &report.measurement.error {
        None => (YES, String::new()),
        Some(error) => (NO, format!("exit code {}: {error}", report.measurement.exit_code)),
    };
    push_line(&mut text, "measurement", answer, &detail);
    text
}

fn push_line(text: &mut String, about: &str, answer: &str, detail: &str) {
    let line = format!("{about:<26} {answer:<14} {detail}");
    let _ = writeln!(text, "{}", line.trim_end());
}

/// One JSON object on one line.
pub fn json(preflight: &Preflight) -> String {
    // Strings and numbers always can be written as JSON.
    let object = serde_json::to_string(&Report::new(preflight)).unwrap_or_default();
    object + "\n"
}

const YES: &str = "yes";
const NO: &str = "no";
const COULD_NOT_TELL: &str = "could not tell";

/// The JSON object.
#[derive(Serialize)]
struct Report {
    /// The version of rlat.
    rlat: &'static str,
    kernel: Option<String>,
    architecture: Option<String>,
    distribution: Option<String>,
    questions: Vec<Answered>,
    measurement: Measurement,
}

#[derive(Serialize)]
struct Answered {
    about: &'static str,
    answer: &'static str,
    needed: bool,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// Whether one is possible.
#[derive(Serialize)]
struct Measurement {
    answer: &'static str,
    exit_code: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Report {
    fn new(preflight: &Preflight) -> Self {
        let Preflight { host, questions, refusal } = preflight;
        let escaped = |fact: &Option<String>| fact.as_ref().map(|fact| escape(fact.as_bytes()));
        Self {
            rlat: env!("CARGO_PKG_VERSION"),
            kernel: escaped(&host.kernel),
            architecture: escaped(&host.architecture),
            distribution: escaped(&host.distribution),
            questions: questions.iter().map(Answered::new).collect(),
            measurement: Measurement {
                answer: if refusal.is_none() { YES } else { NO },
                exit_code: preflight.exit_code(),
                error: refusal.as_ref().map(|error| {
                    let headline =
                        format!("cannot {} {}: {}", error.step, error.object, error.cause);
                    escape(headline.as_bytes())
                }),
            },
        }
    }
}

impl Answered {
    fn new(question: &Question) -> Self {
        let (answer, detail, next) = match &question.verdict {
            Verdict::Yes { found } => (YES, found, None),
            Verdict::No { cost, next } => (NO, cost, Some(next)),
            Verdict::CouldNotTell { why } => (COULD_NOT_TELL, why, None),
        };
        Self {
            about: question.about,
            answer,
            needed: question.needed,
            detail: escape(detail.as_bytes()),
            next: next.map(|next| escape(next.as_bytes())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Cause, Error, Kind, Step};
    use crate::host::Host;

    fn found(refusal: Option<Error>) -> Preflight {
        let question = |about, needed, verdict| Question { about, needed, verdict };
        Preflight {
            host: Host {
                kernel: Some("Linux 9.9".into()),
                architecture: None,
                distribution: Some("\x1b[31mRed".into()),
            },
            questions: vec![
                question("tracefs", true, Verdict::Yes { found: "mounted at /a\nb".into() }),
                question("bells", false, Verdict::Yes { found: String::new() }),
                question(
                    "hash maps",
                    true,
                    Verdict::No { cost: "all".into(), next: "hope".into() },
                ),
                question("whistles", false, Verdict::CouldNotTell { why: "no air".into() }),
            ],
            refusal,
        }
    }

    fn refusal() -> Error {
        Error {
            kind: Kind::Unsupported,
            step: Step::Map,
            object: "m".into(),
            cause: Cause::Text("why".into()),
            next: "hope".into(),
        }
    }

    #[test]
    fn text_has_a_line_for_each_question() {
        let expected = "\
kernel                     yes            Linux 9.9
architecture               could not tell
distribution               yes            \\u{1b}[31mRed
tracefs                    yes            mounted at /a\\nb
bells                      yes
hash maps                  no             all; hope
whistles                   could not tell no air
measurement                no             exit code 4: cannot create map m: why
";
        assert_eq!(text(&found(Some(refusal()))), expected);
        assert!(text(&found(None)).ends_with("\nmeasurement                yes\n"));
    }

    #[test]
    fn json_is_one_object_on_one_line() {
        let expected = concat!(
            r#"{"rlat":"VERSION","kernel":"Linux 9.9","architecture":null,"#,
            r#""distribution":"\\u{1b}[31mRed","questions":["#,
            r#"{"about":"tracefs","answer":"yes","needed":true,"detail":"mounted at /a\\nb"},"#,
            r#"{"about":"bells","answer":"yes","needed":false,"detail":""},"#,
            r#"{"about":"hash maps","answer":"no","needed":true,"detail":"all","next":"hope"},"#,
            r#"{"about":"whistles","answer":"could not tell","needed":false,"detail":"no air"}],"#,
            r#""measurement":{"answer":"no","exit_code":4,"error":"cannot create map m: why"}}"#,
            "\n"
        )
        .replace("VERSION", env!("CARGO_PKG_VERSION"));
        assert_eq!(json(&found(Some(refusal()))), expected);
        let possible = "\"measurement\":{\"answer\":\"yes\",\"exit_code\":0}}\n";
        assert!(json(&found(None)).ends_with(possible));
    }
}
