//! The commands that run something.

use std::process::ExitCode;

use tracing::warn;

use super::{MockProvidersArgs, block_on, fail, refuse};
use crate::app::{AppError, Application, open_database, signals};
use crate::config::{Config, DatabaseConfig, Env, LogConfig, LogFormat};
use crate::demo::{self, DemoArgs};
use crate::provider::mock::Mock;
use crate::telemetry;
use crate::terminal::print;

/// `paybell serve`.
pub fn serve(env: &Env) -> ExitCode {
    let config = match Config::from_env(env) {
        Ok(config) => config,
        Err(faults) => return refuse(&faults),
    };
    if let Err(error) = telemetry::init(&config.log) {
        return fail(&error);
    }
    for warning in &config.warnings {
        warn!("{warning}");
    }
    #[cfg(feature = "fail-points")]
    let _armed = crate::fail_points::armed();
    ended(block_on(Box::pin(async {
        let stop = signals()?;
        Box::pin(Application::build(config))
            .await?
            .run_until(stop)
            .await
    })))
}

/// `paybell demo`.
pub fn demo(args: &DemoArgs) -> ExitCode {
    // What the demo has to say is on standard output; the log would tell it twice.
    let log = LogConfig {
        format: LogFormat::Text,
        filter: "error".to_owned(),
    };
    if let Err(error) = telemetry::init(&log) {
        return fail(&error);
    }
    match block_on(Box::pin(demo::run(args))) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => fail(&error),
        Err(error) => fail(&error),
    }
}

/// `paybell mock-providers`.
pub fn mock_providers(args: &MockProvidersArgs) -> ExitCode {
    ended(block_on(Box::pin(async {
        let stop = signals()?;
        let mock = Mock::start(args.bind)?;
        print(&format!(
            "mock providers listen on {addr}\n\
             \x20 SMS_BASE_URL=http://{addr}/sms\n\
             \x20 FCM_BASE_URL=http://{addr}\n\
             \x20 a service-account key, if wanted: curl http://{addr}/mock/service-account\n\
             \x20 what they accepted: curl http://{addr}/mock/messages\n",
            addr = mock.addr()
        ))?;
        stop.await;
        mock.stop().await;
        Ok(())
    })))
}

/// `paybell migrate`.
pub fn migrate(env: &Env) -> ExitCode {
    let database = match DatabaseConfig::from_env(env) {
        Ok(database) => database,
        Err(faults) => return refuse(&faults),
    };
    ended(block_on(Box::pin(async {
        let (_, applied) = open_database(&database).await?;
        let text = match applied.as_slice() {
            [] => "the schema is up to date\n".to_owned(),
            versions => versions.iter().map(|v| format!("applied {v}\n")).collect(),
        };
        Ok(print(&text)?)
    })))
}

fn ended(result: std::io::Result<Result<(), AppError>>) -> ExitCode {
    match result {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => fail(&error),
        Err(error) => fail(&error),
    }
}
