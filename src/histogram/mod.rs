//! Latency histograms: counting values in buckets, and reading them out again.
//!
//! - [`log2`]: which bucket a value belongs in. Pure arithmetic, and the reference for the BPF code that
//!   does the same in the kernel.
//! - [`Histogram`]: the buckets of one measurement, at the finest resolution, with coarser views,
//!   quantiles and merging.
//! - [`LinearHistogram`]: buckets of one width.
//! - [`Unit`]: what the values count.
//!
//! Nothing here knows where the values come from.

mod linear;
pub mod log2;
mod recorded;
mod unit;

pub use linear::{Linear, LinearHistogram, LinearRow};
pub use log2::Bucket;
pub use recorded::{Histogram, Row};
pub use unit::Unit;
