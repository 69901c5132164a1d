#![expect(clippy::unwrap_used, reason = "a test may panic")]

use clap::CommandFactory;

use std::io::ErrorKind;

use super::*;

/// What `check-config` says on standard output and standard error, and its code.
fn check(pairs: &[(&str, &str)]) -> (String, String, ExitCode) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = check_config(&pairs.iter().copied().collect(), &mut out, &mut err);
    (
        String::from_utf8(out).unwrap(),
        String::from_utf8(err).unwrap(),
        code,
    )
}

/// An output that fails with a kind of error.
struct Failing(ErrorKind);

impl Write for Failing {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(self.0.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const VALID: (&str, &str) = ("SMS_BASE_URL", "http://127.0.0.1:9090/sms");

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
    DemoArgs::augment_args(clap::Command::new("demo")).debug_assert();
    MockProvidersArgs::augment_args(clap::Command::new("mock-providers")).debug_assert();
}

#[test]
fn usage_errors_and_missing_commands_end_with_2_and_help_with_0() {
    for (args, expected) in [
        (vec!["paybell"], 2),
        (vec!["paybell", "no-such-command"], 2),
        (vec!["paybell", "check-config", "--no-such-option"], 2),
        (vec!["paybell", "--help"], 0),
        (vec!["paybell", "--version"], 0),
    ] {
        let usage = Cli::try_parse_from(&args).unwrap_err();
        assert_eq!(usage.exit_code(), expected, "{args:?}");
    }
}

#[test]
fn check_config_shows_everything_and_says_that_it_is_valid() {
    let (out, err, code) = check(&[
        VALID,
        ("ADMIN_TOKEN", "hidden-hidden-hidden"),
        ("SMS_TO", "x"),
    ]);
    assert_eq!(code, ExitCode::SUCCESS);
    assert!(
        out.contains("BIND_ADDR") && out.contains("127.0.0.1:8080 (default)"),
        "{out}"
    );
    assert!(
        out.contains("warning: SMS_TO is not a variable of this version"),
        "{out}"
    );
    assert!(out.ends_with("The configuration is valid.\n"), "{out}");
    assert!(!out.contains("hidden") && err.is_empty(), "{out}{err}");
}

#[test]
fn check_config_names_every_fault_on_a_line_of_its_own_and_ends_with_2() {
    let (out, err, code) = check(&[VALID, ("BIND_ADDR", "x\ny"), ("LOG_FORMAT", "xml")]);
    assert_eq!(code, ExitCode::from(2));
    assert!(
        out.contains("LOG_FORMAT") && !out.contains("is valid"),
        "{out}"
    );
    let lines: Vec<&str> = err.lines().collect();
    assert_eq!(lines.len(), 2, "{err}");
    assert!(
        lines[0].starts_with("error: BIND_ADDR=x\\ny is not"),
        "{err}"
    );
    assert!(
        lines[1].starts_with("error: LOG_FORMAT=xml is not"),
        "{err}"
    );
}

#[test]
fn a_reader_that_has_gone_is_no_error_and_a_full_disk_is_one() {
    assert!(write_out(&mut Failing(ErrorKind::BrokenPipe), "x").is_ok());
    let env = [VALID].into_iter().collect();
    let mut err = Vec::new();
    let code = check_config(&env, &mut Failing(ErrorKind::StorageFull), &mut err);
    assert_eq!(code, ExitCode::from(1));
    assert!(
        String::from_utf8(err)
            .unwrap()
            .starts_with("error: cannot write to standard output")
    );
}

#[test]
fn errors_are_one_line() {
    let mut err = Vec::new();
    report(&mut err, &"first\n  second");
    assert_eq!(err, b"error: first second\n");
}

#[test]
fn the_runtime_has_time_and_threads() {
    let answer = block_on(async {
        let task = tokio::spawn(async { 42 });
        tokio::time::timeout(std::time::Duration::from_secs(60), task)
            .await
            .unwrap()
            .unwrap()
    });
    assert_eq!(answer.unwrap(), 42);
}
