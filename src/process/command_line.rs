//! The command line of a process, from `/proc/PID/cmdline`; see `proc_pid_cmdline(5)`.

/// The arguments of process `pid`, its own name first; empty when it has ended, and for one that has
/// none, as threads of the kernel.
///
/// A process may write over them: some put what they are doing there, as one argument, and zeros behind
/// it. So zeros at the end are left out, and with them empty arguments there.
pub fn command_line(pid: u32) -> Vec<Vec<u8>> {
    std::fs::read(format!("/proc/{pid}/cmdline")).map_or_else(|_| Vec::new(), |text| split(&text))
}

fn split(text: &[u8]) -> Vec<Vec<u8>> {
    let Some(last) = text.iter().rposition(|byte| *byte != 0) else { return Vec::new() };
    text[..=last].split(|byte| *byte == 0).map(<[u8]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_end_in_zeros() {
        assert!(split(b"").is_empty());
        assert!(split(b"\0\0").is_empty());
        assert_eq!(split(b"cat\0"), [b"cat"]);
        assert_eq!(split(b"caf\xe9\0\0a\nb\0"), [&b"caf\xe9"[..], b"", b"a\nb"]);
        assert_eq!(split(b"nginx: worker process\0\0\0\0"), [b"nginx: worker process"]);
    }

    #[test]
    fn that_of_this_process_is_what_it_was_called_with() {
        let own: Vec<Vec<u8>> =
            std::env::args_os().map(std::os::unix::ffi::OsStringExt::into_vec).collect();
        assert_eq!(command_line(std::process::id()), own);
        assert!(command_line(u32::MAX).is_empty());
    }
}
