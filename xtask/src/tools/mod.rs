//! The programs that labs and virtual machines use: where they come from and where they are.

mod table;

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::workspace::Workspace;
pub(crate) use table::TABLE;

/// Who needs a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// Labs on this machine's kernel, and the demo.
    Lab,
    /// Labs on other kernels.
    Vm,
}

/// Where a tool may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// On the machine; privately only if installing would change something that is there.
    Anywhere,
    /// Always an own copy, because a program of the same name may be a different one.
    Private,
}

/// One program and the Debian package that has it.
#[derive(Debug)]
pub(crate) struct Tool {
    pub(crate) program: &'static str,
    pub(crate) package: &'static str,
    pub(crate) group: Group,
    pub(crate) place: Place,
    /// What the suite does with it.
    pub(crate) why: &'static str,
    /// For a private copy: shell words to run it with, `$root` being the private root.
    wrap: Wrap,
}

#[derive(Debug)]
struct Wrap {
    environment: &'static str,
    arguments: &'static str,
}

impl Tool {
    /// Why a copy is private, for a message.
    pub(crate) fn private_reason(&self) -> &'static str {
        match self.place {
            Place::Anywhere => "installing it would remove or replace packages here",
            Place::Private => "the tests need exactly this one",
        }
    }
}

/// Looks up tools for one checkout.
pub(crate) struct Tools {
    folder: PathBuf,
}

impl Tools {
    /// The tools of `space`.
    pub(crate) fn of(space: &Workspace) -> Self {
        Self {
            folder: space.tools(),
        }
    }

    fn root(&self) -> PathBuf {
        self.folder.join("root")
    }

    /// The tools of `group` that cannot be run.
    pub(crate) fn missing(&self, group: Group) -> Vec<&'static Tool> {
        TABLE
            .iter()
            .filter(|tool| tool.group == group && self.locate(tool).is_none())
            .collect()
    }

    /// What to execute for `tool`: the machine's program, or the wrapper of a private one (which sets the library path
    /// for it alone).
    pub(crate) fn locate(&self, tool: &Tool) -> Option<PathBuf> {
        let system = (tool.place == Place::Anywhere)
            .then(|| on_path(tool.program))
            .flatten();
        system.or_else(|| {
            let wrapper = self.folder.join("bin").join(tool.program);
            (wrapper.exists() && self.private_file(tool.program).is_some()).then_some(wrapper)
        })
    }

    /// The executable itself of a private copy, for copying it elsewhere.
    pub(crate) fn private_file(&self, program: &str) -> Option<PathBuf> {
        let folders = ["usr/bin", "usr/sbin", "bin", "sbin"];
        folders
            .iter()
            .map(|folder| self.root().join(folder).join(program))
            .find(|path| is_executable(path))
    }

    /// The search path for programs that call tools by name: the caller's, the system folders that a plain user's path
    /// lacks, then the private wrappers.
    pub(crate) fn path_variable(&self) -> OsString {
        let folders = search_folders()
            .into_iter()
            .chain([self.folder.join("bin")]);
        std::env::join_paths(folders)
            .unwrap_or_else(|_| std::env::var_os("PATH").unwrap_or_default())
    }

    /// The folders with libraries of private copies.
    pub(crate) fn library_folders(&self) -> Vec<PathBuf> {
        LIBRARY_FOLDERS
            .iter()
            .map(|folder| self.root().join(folder))
            .collect()
    }

    /// [`Self::library_folders`] as `LD_LIBRARY_PATH`; only ever for a private program.
    pub(crate) fn library_path(&self) -> OsString {
        std::env::join_paths(self.library_folders()).unwrap_or_default()
    }

    /// Writes the script that runs a private copy of `tool`.
    ///
    /// # Errors
    /// When the package did not bring the program, or the script cannot be written.
    pub(crate) fn write_wrapper(&self, tool: &Tool) -> Result<()> {
        let file = self.private_file(tool.program).with_context(|| {
            format!(
                "package {} brought no program {}",
                tool.package, tool.program
            )
        })?;
        let inside = file
            .strip_prefix(self.root())
            .unwrap_or(&file)
            .display()
            .to_string();
        let folder = self.folder.join("bin");
        let path = folder.join(tool.program);
        fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        fs::write(&path, wrapper(tool, &inside))
            .with_context(|| format!("writing {}", path.display()))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
            .with_context(|| format!("making {} executable", path.display()))
    }
}

const LIBRARY_FOLDERS: [&str; 3] = [
    "usr/lib/x86_64-linux-gnu",
    "lib/x86_64-linux-gnu",
    "usr/lib/x86_64-linux-gnu/pulseaudio",
];

fn wrapper(tool: &Tool, inside: &str) -> String {
    let libraries = LIBRARY_FOLDERS
        .map(|folder| format!("$root/{folder}"))
        .join(":");
    let Wrap {
        environment,
        arguments,
    } = tool.wrap;
    format!(
        "#!/bin/sh\n# Runs the private copy of {} with its own libraries.\nroot=\"${{0%/*}}/../root\"\n\
         exec env LD_LIBRARY_PATH=\"{libraries}\" {environment} \"$root/{inside}\" {arguments} \"$@\"\n",
        tool.program
    )
}

/// The machine's program of that name.
pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    search_folders()
        .into_iter()
        .map(|folder| folder.join(program))
        .find(|path| is_executable(path))
}

fn search_folders() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path)
        .filter(|path| path.is_absolute())
        .collect();
    for folder in ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from) {
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    folders
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(program: &str) -> &'static Tool {
        TABLE.iter().find(|tool| tool.program == program).unwrap()
    }

    #[test]
    fn each_program_is_listed_once() {
        let mut names: Vec<_> = TABLE.iter().map(|tool| tool.program).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), TABLE.len());
    }

    #[test]
    fn a_wrapper_sets_the_library_path_for_its_program_alone() {
        assert_eq!(
            wrapper(tool("kmod"), "bin/kmod"),
            "#!/bin/sh\n# Runs the private copy of kmod with its own libraries.\nroot=\"${0%/*}/../root\"\n\
             exec env LD_LIBRARY_PATH=\"$root/usr/lib/x86_64-linux-gnu:$root/lib/x86_64-linux-gnu:\
             $root/usr/lib/x86_64-linux-gnu/pulseaudio\"  \"$root/bin/kmod\"  \"$@\"\n"
        );
    }

    #[test]
    fn a_private_tool_is_not_taken_from_the_machine() {
        let nowhere = Tools {
            folder: PathBuf::from("/nonexistent"),
        };
        assert_eq!(nowhere.locate(tool("busybox")), None);
        assert!(on_path("sh").is_some());
        assert_eq!(on_path("no-such-program-here"), None);
    }

    #[test]
    fn wrappers_come_last_on_the_path() {
        let tools = Tools {
            folder: PathBuf::from("/t"),
        };
        let path = tools.path_variable();
        assert_eq!(
            std::env::split_paths(&path).last(),
            Some(PathBuf::from("/t/bin"))
        );
        assert!(std::env::split_paths(&path).any(|folder| folder == Path::new("/usr/sbin")));
    }
}
