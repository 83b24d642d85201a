//! `rlat --version`, and `rlat version`: what belongs into the protocol of a measurement.

use super::output::write_listing;
use crate::error::Result;
use crate::escape::escape;
use crate::host::Host;

/// Prints the version; if `verbose`, also on what it runs.
pub(super) fn version(verbose: bool) -> Result<()> {
    let own = concat!("rlat ", env!("CARGO_PKG_VERSION"), "\n");
    if !verbose {
        return write_listing(own);
    }
    let Host { kernel, architecture, distribution } = Host::read();
    let show = |fact: Option<String>| {
        fact.map_or_else(|| "unknown".to_owned(), |fact| escape(fact.as_bytes()))
    };
    write_listing(&format!(
        "{own}kernel: {}\narchitecture: {}\ndistribution: {}\n",
        show(kernel),
        show(architecture),
        show(distribution)
    ))
}
