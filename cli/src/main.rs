//! The command `fulgurite`.

fn main() -> std::process::ExitCode {
    fulgurite_cli::main()
}
