//! On what rlat runs: kernel, architecture and distribution, which belong to every result.

use std::fs;

use nix::sys::utsname::uname;

/// Where the distribution says its name; see os-release(5). The first that is there counts.
const OS_RELEASE: [&str; 2] = ["/etc/os-release", "/usr/lib/os-release"];

/// What a result depends on. `None` is what could not be found out.
///
/// The strings come from outside, and are not escaped for a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Name and release: `Linux 6.12.57+deb13-amd64`.
    pub kernel: Option<String>,
    /// As `uname -m` says it: `x86_64`, `aarch64`.
    pub architecture: Option<String>,
    /// As the distribution calls itself: `Debian GNU/Linux 13 (trixie)`. In a container, that of the
    /// container.
    pub distribution: Option<String>,
}

impl Host {
    /// Looks at the running system.
    pub fn read() -> Self {
        let uname = uname().ok();
        let kernel = uname.as_ref().map(|names| {
            format!("{} {}", names.sysname().to_string_lossy(), names.release().to_string_lossy())
        });
        let architecture = uname.map(|names| names.machine().to_string_lossy().into_owned());
        let os_release = OS_RELEASE.iter().find_map(|path| fs::read(path).ok());
        let distribution =
            os_release.and_then(|text| distribution(&String::from_utf8_lossy(&text)));
        Self { kernel, architecture, distribution }
    }
}

/// The name in an os-release file: `PRETTY_NAME`, else `NAME`, which may come with a `VERSION`.
fn distribution(os_release: &str) -> Option<String> {
    let value = |key: &str| {
        // As in a shell, the last assignment counts.
        let mut lines = os_release.lines().rev();
        let value = lines.find_map(|line| line.trim().strip_prefix(key)?.strip_prefix('='))?;
        Some(unquote(value)).filter(|value| !value.is_empty())
    };
    value("PRETTY_NAME").or_else(|| {
        let name = value("NAME")?;
        Some(value("VERSION").map_or_else(|| name.clone(), |version| format!("{name} {version}")))
    })
}

/// Takes away the quotes of a shell, and within double quotes its backslashes.
fn unquote(value: &str) -> String {
    let within = |quote| value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    if let Some(literal) = within('\'') {
        return literal.to_owned();
    }
    let Some(quoted) = within('"') else { return value.to_owned() };
    let mut plain = String::with_capacity(quoted.len());
    let mut characters = quoted.chars().peekable();
    while let Some(character) = characters.next() {
        let escaped = characters.next_if(|next| character == '\\' && r#"\"$`"#.contains(*next));
        plain.push(escaped.unwrap_or(character));
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_name_is_read_as_a_shell_would() {
        for (text, name) in [
            (
                "NAME=\"A\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n",
                "Debian GNU/Linux 12 (bookworm)",
            ),
            ("PRETTY_NAME='It is $1'", "It is $1"),
            ("PRETTY_NAME=Alpine\n", "Alpine"),
            (r#"PRETTY_NAME="a \"b\" \$c \\ \d""#, r#"a "b" $c \ \d"#),
            ("PRETTY_NAME=old\nPRETTY_NAME=new\n", "new"),
            ("PRETTY_NAME=\"\"\nNAME=Void\n", "Void"),
            ("NAME=\"Arch Linux\"\nVERSION=7\n", "Arch Linux 7"),
        ] {
            assert_eq!(distribution(text).as_deref(), Some(name), "{text}");
        }
        for text in ["", "# PRETTY_NAME=x", "PRETTY_NAME", "PRETTY_NAME_2=x", "VERSION=2"] {
            assert_eq!(distribution(text), None, "{text}");
        }
    }

    #[test]
    fn the_running_kernel_is_linux() {
        assert!(Host::read().kernel.unwrap().starts_with("Linux "));
    }

    proptest! {
        #[test]
        fn no_input_panics(text: String, value: String) {
            let _ = distribution(&text);
            let _ = distribution(&format!("PRETTY_NAME={value}"));
        }
    }
}
