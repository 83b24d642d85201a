//! stub
pub(super) fn check(_args: &crate::cli::CheckArgs) -> crate::error::Result<()> {
    Ok(())
}
