//! `/proc/self/mountinfo`: what is mounted where, for this process.
//!
//! The file is described in `proc_pid_mountinfo(5)`. A line of it:
//!
//! ```text
//! 36 35 98:0 / /mnt/my\040disk rw,noatime master:1 - ext4 /dev/root rw
//!            |  |                          |       |
//!            |  mount point                |       filesystem type
//!            root within the filesystem    any number of optional fields, ended by "-"
//! ```

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// One mount, as far as it is needed here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The folder of the filesystem that is mounted: `/`, unless only a part of it is (a bind mount).
    pub root: PathBuf,
    /// Where it is mounted.
    pub mount_point: PathBuf,
    /// The type of the filesystem, as `mount -t` takes it.
    pub filesystem: OsString,
}

/// The mounts that `mountinfo` lists, in its order. A line that is not understood is left out.
pub fn mounts(mountinfo: &[u8]) -> Vec<Mount> {
    mountinfo.split(|&byte| byte == b'\n').filter_map(parse_line).collect()
}

/// Where whole filesystems of type `filesystem` are mounted, in the file's order.
///
/// A bind mount of a folder of such a filesystem is not one of them.
///
/// ```
/// use rlat::tracefs::mount_points;
///
/// let mountinfo = b"25 1 0:6 / /my\\040trace rw - tracefs none rw\n";
/// assert_eq!(mount_points(mountinfo, "tracefs"), ["/my trace".into()] as [std::path::PathBuf; 1]);
/// ```
pub fn mount_points(mountinfo: &[u8], filesystem: &str) -> Vec<PathBuf> {
    mounts(mountinfo)
        .into_iter()
        .filter(|mount| mount.filesystem == filesystem && mount.root.as_os_str() == "/")
        .map(|mount| mount.mount_point)
        .collect()
}

fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|&byte| byte == b' ');
    let root = fields.nth(3)?;
    let mount_point = fields.next()?;
    // The mount options and the optional fields; a lone "-" is never one of them.
    fields.find(|&field| field == b"-")?;
    let filesystem = fields.next()?;
    Some(Mount {
        root: unescape(root).into(),
        mount_point: unescape(mount_point).into(),
        filesystem: unescape(filesystem),
    })
}

/// Undoes the kernel's escapes: a space, tab, newline or backslash stands as `\` and three octal
/// digits (`mangle()` in `fs/seq_file.c`). Any other backslash is taken as it is.
fn unescape(field: &[u8]) -> OsString {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        match tail {
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..] if first == b'\\' => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = after;
            }
            _ => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SAMPLE: &[u8] = b"\
22 27 0:21 / /proc rw,relatime - proc proc rw
36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 propagate_from:2 unbindable - ext3 /dev/root rw,errors=continue
40 23 0:12 / /sys/kernel/tracing rw shared:9 - tracefs tracefs rw
41 23 0:12 /instances/a /bound rw - tracefs tracefs rw
42 23 0:12 / /a\\040b\\011c\\012d\\134e\\9 rw - tracefs none rw
";

    fn found(filesystem: &str) -> Vec<PathBuf> {
        mount_points(SAMPLE, filesystem)
    }

    #[test]
    fn optional_fields_are_skipped_whatever_their_number() {
        assert_eq!(found("proc"), [PathBuf::from("/proc")]);
        assert_eq!(mounts(SAMPLE)[1].mount_point, PathBuf::from("/mnt2"));
        assert_eq!(mounts(SAMPLE)[1].filesystem, "ext3");
    }

    #[test]
    fn escapes_are_undone_and_bind_mounts_of_a_folder_left_out() {
        let expected = [PathBuf::from("/sys/kernel/tracing"), PathBuf::from("/a b\tc\nd\\e\\9")];
        assert_eq!(found("tracefs"), expected);
    }

    #[test]
    fn a_cut_line_is_left_out() {
        assert!(mounts(b"22 27 0:21 / /proc rw,relatime - ").len() <= 1);
        assert!(mounts(b"22 27 0:21 / /proc rw,relatime").is_empty());
        assert!(mounts(b"\n\n").is_empty());
    }

    #[test]
    fn the_running_system_has_proc() {
        let text = std::fs::read("/proc/self/mountinfo").unwrap();
        assert!(mount_points(&text, "proc").contains(&PathBuf::from("/proc")));
    }

    proptest! {
        #[test]
        fn no_input_panics(bytes: Vec<u8>) {
            let _ = mounts(&bytes);
        }

        #[test]
        fn any_mount_point_survives(point in "[^\0]{1,20}") {
            let escaped: Vec<u8> = point.bytes().flat_map(|byte| match byte {
                b' ' | b'\t' | b'\n' | b'\\' => format!("\\{byte:03o}").into_bytes(),
                other => vec![other],
            }).collect();
            let line = [b"1 2 0:3 / ", escaped.as_slice(), b" rw shared:1 - tracefs x rw\n"].concat();
            prop_assert_eq!(mount_points(&line, "tracefs"), vec![PathBuf::from(point)]);
        }
    }
}
