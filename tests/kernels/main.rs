//! What is asked of every kernel beside the other tests: `tests/kernels/cases` lists those that
//! `tests/kernels/run` repeats in each of Debian's kernels, with this file among them. On the host it is a
//! test as any other.
//!
//! The harness says by `RLAT_CIRCUMSTANCE` what it has set up; tests that need that end at once elsewhere.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // All of this file is tests.

#[path = "../documented/mod.rs"]
mod documented;
#[path = "../requirements/mod.rs"]
mod requirements;
#[path = "../support/mod.rs"]
mod support;

mod circumstances;
mod counted;
mod features;
mod pinned;
mod skipped;
mod verifier;
