//! Tasks whose command line is fixed but whose work is not in this checkout yet. They fail, they do not pass quietly.

/// The labs on other kernels.
pub(crate) mod vm {
    use anyhow::Result;
    use clap::Args;

    use crate::setup::Mode;
    use crate::stop::Stop;
    use crate::test::Counts;
    use crate::workspace::Workspace;

    /// Options of `cargo xtask vm-test`.
    #[derive(Args, Default)]
    pub(crate) struct VmArgs {
        /// Run every lab on every kernel, not each lab where CI needs it
        #[arg(long)]
        pub(crate) all: bool,
    }

    /// `cargo xtask vm-test`.
    pub(crate) fn command(space: &Workspace, args: &VmArgs, mode: Mode) -> Result<()> {
        run(space, args, mode).map(|_| ())
    }

    /// Boots the kernels, runs the labs there, and returns what their runners counted.
    pub(crate) fn run(_space: &Workspace, _args: &VmArgs, _mode: Mode) -> Result<Counts> {
        Err(Stop::failed("`vm-test` is not part of this checkout yet").into())
    }
}
