//! SET, RESET and SHOW.

use gnomon_parser::ast::{Set, SettingName, SettingValue, TransactionMode};

use crate::{
    Notice, Result, Severity, SqlError, SqlState,
    context::{Company, SessionContext, State, setting_of},
    query::ResultColumn,
    settings::{Progress, Scope, Settings, setting_name, setting_texts},
    sink::Sink,
    types::{ColumnType, Context, Datum, FixedEnvironment, Type},
};

/// A column of text in the result of a command.
pub(super) fn text_column(name: &str) -> ResultColumn {
    ResultColumn {
        name: name.into(),
        ty: ColumnType { ty: Type::Text, modifier: -1 },
        table: 0,
        attribute: 0,
    }
}

/// A context for rows of plain text, which is written alike everywhere.
pub(super) fn plain_context<R>(f: impl FnOnce(&Context<'_>) -> R) -> R {
    let environment = FixedEnvironment::default();
    f(&Context::new(&environment))
}

/// SET.
pub(super) fn set(
    session: &mut SessionContext,
    set: &Set,
    company: Company,
    notices: &mut Vec<Notice>,
) -> Result<()> {
    if set.is_local && !session.in_block() && company != Company::Text {
        notices.push(
            SqlError::new(
                SqlState::NO_ACTIVE_SQL_TRANSACTION,
                "SET LOCAL can only be used in transaction blocks",
            )
            .severity(Severity::Warning),
        );
    }
    let name = set.name.name.to_lowercase();
    let values = match &set.value {
        SettingValue::Default => None,
        SettingValue::Current if is_authorization(&name) => return Ok(()),
        SettingValue::Current => {
            let (_, text) = session.settings.show(&name)?;
            return change(session, set.is_local, |settings, scope, progress| {
                settings.set_text(&name, Some(&text), scope, progress)
            });
        }
        SettingValue::List(items) => Some(setting_texts(items)?),
    };
    if is_authorization(&name) {
        return set_authorization(session, values.as_deref());
    }
    assign(session, &name, values.as_deref(), set.is_local)?;
    if let Some((name, why)) = session.settings.lack_of_effect(&name) {
        notices.push(Notice::no_effect(&format!("setting \"{name}\""), why));
    }
    Ok(())
}

fn is_authorization(name: &str) -> bool {
    name == "session_authorization"
}

/// SET SESSION AUTHORIZATION. The session's user is the only role that it can be.
fn set_authorization(session: &mut SessionContext, values: Option<&[String]>) -> Result<()> {
    match values {
        Some([user]) if **user != *session.user => {
            Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("role \"{user}\" does not exist")))
        }
        _ => assign(session, "role", None, false),
    }
}

/// RESET.
pub(super) fn reset(session: &mut SessionContext, name: &SettingName) -> Result<()> {
    match setting_name(name) {
        Some(name) if is_authorization(&name) => set_authorization(session, None)?,
        Some(name) => assign(session, &name, None, false)?,
        None => reset_all(session),
    }
    Ok(())
}

/// Sets a setting, without values to its default.
fn assign(session: &mut SessionContext, name: &str, values: Option<&[String]>, is_local: bool) -> Result<()> {
    change(session, is_local, |settings, scope, progress| settings.set(name, values, scope, progress))
}

fn change(
    session: &mut SessionContext,
    is_local: bool,
    change: impl FnOnce(&mut Settings, Scope, Progress) -> Result<()>,
) -> Result<()> {
    session.ensure_transaction();
    let scope = if is_local { Scope::Local } else { Scope::Session };
    let progress = session.progress();
    change(&mut session.settings, scope, progress)?;
    session.follow_settings();
    Ok(())
}

/// SET TRANSACTION, and SET SESSION CHARACTERISTICS.
pub(super) fn set_transaction(
    session: &mut SessionContext,
    of_session: bool,
    modes: &[TransactionMode],
    company: Company,
    notices: &mut Vec<Notice>,
) -> Result<()> {
    session.ensure_transaction();
    if !of_session {
        warn_outside_block(session, company, notices);
        return session.set_modes(modes);
    }
    for mode in modes {
        let (name, value) = setting_of(*mode);
        let name = format!("default_{name}");
        session.settings.set(&name, Some(&[value.to_owned()]), Scope::Session, Progress::Begun)?;
    }
    Ok(())
}

/// SET TRANSACTION SNAPSHOT.
pub(super) fn set_snapshot(
    session: &mut SessionContext,
    name: &str,
    company: Company,
    notices: &mut Vec<Notice>,
) -> Result<()> {
    session.ensure_transaction();
    warn_outside_block(session, company, notices);
    session.import_snapshot(name)
}

fn warn_outside_block(session: &SessionContext, company: Company, notices: &mut Vec<Notice>) {
    if session.current.state == State::Implicit && company != Company::Text {
        let message = "SET TRANSACTION can only be used in transaction blocks";
        let warning = SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, message);
        notices.push(warning.severity(Severity::Warning));
    }
}

/// The columns of SHOW.
pub(super) fn show_columns(session: &SessionContext, name: &SettingName) -> Result<Vec<ResultColumn>> {
    Ok(match setting_name(name) {
        Some(name) => vec![text_column(&session.settings.show(&name)?.0)],
        None => ["name", "setting", "description"].map(text_column).to_vec(),
    })
}

/// SHOW.
pub(super) fn show(session: &mut SessionContext, name: &SettingName, sink: &mut dyn Sink) -> Result<()> {
    // SHOW may ask for the characteristics of the transaction.
    session.ensure_transaction();
    let columns = show_columns(session, name)?;
    sink.columns(&columns)?;
    plain_context(|context| match setting_name(name) {
        Some(name) => sink.row(context, &[Datum::Text(session.settings.show(&name)?.1.into())]),
        None => session.settings.show_all().try_for_each(|(name, value, description)| {
            sink.row(
                context,
                &[name.to_owned(), value, description.to_owned()].map(|text| Datum::Text(text.into())),
            )
        }),
    })
}

/// RESET ALL.
pub(super) fn reset_all(session: &mut SessionContext) {
    session.ensure_transaction();
    session.settings.reset_all();
    session.follow_settings();
}
