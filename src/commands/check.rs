//! `rlat check`: whether rlat can work here, and what is missing.

use super::output::write_listing;
use crate::cli::{CheckArgs, CheckFormat};
use crate::error::Result;
use crate::preflight::Preflight;
use crate::report::preflight;

/// Prints what was found, and ends as a measurement would: with its exit code, and its message.
pub(super) fn check(args: &CheckArgs) -> Result<()> {
    let found = Preflight::look(args.tracefs.as_deref());
    write_listing(&match args.format {
        CheckFormat::Text => preflight::text(&found),
        CheckFormat::Json => preflight::json(&found),
    })?;
    found.refusal.map_or(Ok(()), Err)
}
