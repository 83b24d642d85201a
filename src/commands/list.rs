//! stub
pub(super) fn list(_args: &crate::cli::ListArgs) -> crate::error::Result<()> {
    Ok(())
}
