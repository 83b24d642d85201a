//! Latency histograms: counting values in buckets, and reading them out again.
//!
//! - [`log2`]: which bucket a value belongs in. Pure arithmetic, and the reference for the BPF code that
//!   does the same in the kernel.
//! - [`Histogram`]: the buckets of one measurement, at the finest resolution, with coarser views,
//!   quantiles and merging.
//!
//! Nothing here knows where the values come from.

pub mod log2;
mod recorded;

pub use log2::Bucket;
pub use recorded::{Histogram, Row};
