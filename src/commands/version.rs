//! stub
pub(super) fn version(_verbose: bool) -> crate::error::Result<()> {
    Ok(())
}
