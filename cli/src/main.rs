//! The command `fulgurite`.

fn main() -> std::process::ExitCode {
    let r = fulgurite_cli::main(); fulgurite::executors::prof_dump(); r
}
