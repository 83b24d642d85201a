//! What a user can ask for, one file each.

mod measure;
mod output;
mod progress;
mod signals;

pub use measure::measure;
