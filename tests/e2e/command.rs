//! Runs the command.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::LazyLock;

/// The executable, built if need be: cargo hands it only to tests of the package that it belongs to.
static FULGURITE: LazyLock<PathBuf> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let built = Command::new(env!("CARGO"))
        // With the tests' package beside it features are those of the running test, and nothing is built twice.
        .args(["build", "--quiet", "--offline", "--package", "fulgurite-cli", "--package", "fulgurite-tests"])
        .arg("--message-format=json")
        .args(with_mpi().then_some("--features=fulgurite-cli/mpi"))
        .current_dir(root)
        .output()
        .expect("cargo runs");
    let text = String::from_utf8_lossy(&built.stdout);
    let errors = String::from_utf8_lossy(&built.stderr);
    let executable = text.lines().filter_map(|l| serde_json::from_str::<serde_json::Value>(l).ok());
    let found = executable.filter_map(|m| m["executable"].as_str().map(PathBuf::from)).next_back();
    found.unwrap_or_else(|| panic!("the command was not built:\n{errors}"))
});

/// Whether the workspace is built with MPI: `.ci/run` says so where it has installed one.
fn with_mpi() -> bool {
    std::env::var_os("FULGURITE_MPI").is_some()
}

/// Makes commands that `mpirun` starts as so many ranks, if there is MPI.
pub fn mpirun(folder: &Path, ranks: usize) -> Option<impl Fn() -> Command> {
    let make = move || {
        let mut mpirun = Command::new("mpirun");
        // there may be fewer cores than ranks, and containers have no other user than root
        mpirun.args(["--oversubscribe", "-n", &ranks.to_string()]).arg(&*FULGURITE).current_dir(folder);
        mpirun.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1").env("NO_COLOR", "1");
        mpirun
    };
    with_mpi().then_some(make)
}

/// What a run of the command gave.
pub struct Ran {
    /// Its exit status; nothing if a signal ended it.
    pub status: Option<i32>,
    /// What it printed.
    pub out: String,
    /// What it printed for people, not for pipes.
    pub err: String,
}

/// The command in a folder.
pub fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(&*FULGURITE);
    command.args(args).current_dir(folder).env("NO_COLOR", "1");
    command
}

/// Runs the command in a folder.
pub fn fulgurite(folder: &Path, args: &[&str]) -> Ran {
    ended(command(folder, args).output().expect("the command starts"))
}

/// Starts the command in a folder; [`end`] waits for it.
pub fn start(folder: &Path, args: &[&str]) -> Child {
    let mut command = command(folder, args);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts")
}

/// Waits for what was started.
pub fn end(child: Child) -> Ran {
    ended(child.wait_with_output().expect("the command ends"))
}

/// What a command left. A panic is never an answer.
pub fn ended(output: Output) -> Ran {
    let Output { status, stdout, stderr } = output;
    let text = |bytes| String::from_utf8(bytes).expect("text is UTF-8");
    let ran = Ran { status: status.code(), out: text(stdout), err: text(stderr) };
    let panicked = ran.err.contains("panicked at") || ran.err.contains("error[E999]");
    assert!(!panicked, "a panic:\n{}", ran.err);
    ran
}

impl Ran {
    /// It went well.
    #[track_caller]
    pub fn fine(self) -> Ran {
        assert_eq!(self.status, Some(0), "stdout:\n{}\nstderr:\n{}", self.out, self.err);
        self
    }

    /// It stopped with this status and code, and its standard output is empty: results of a failed run are none.
    #[track_caller]
    pub fn refused(self, status: i32, code: &str) -> Ran {
        assert_eq!(self.status, Some(status), "stdout:\n{}\nstderr:\n{}", self.out, self.err);
        assert!(self.err.contains(&format!("error[{code}]")), "no {code} in\n{}", self.err);
        self
    }
}

/// A folder of its own for a test, removed at the end.
pub struct Folder(pub PathBuf);

impl Folder {
    /// An empty one.
    pub fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("fulgurite-e2e-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a temporary folder");
        Folder(path)
    }

    /// Writes a file in it.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        std::fs::write(self.0.join(name), bytes).expect("a temporary file");
        name.to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
