//! Plans of queries, DML and CALL: bound against a version of the catalog, kept by prepared statements and procedures.

use std::sync::Arc;

use gnomon_parser::ast::Statement;

use crate::{
    Result, SqlError, SqlState,
    catalog::model::{Oid, Table},
    context::{SessionContext, View},
    database::progress::Shown,
    dml::{DeletePlan, InsertPlan, UpdatePlan},
    procedure::CallPlan,
    query::{
        Binder, Measures, ParameterNames, Planned, ResultColumn,
        plan::{Constants, Node, Parts},
    },
    types::{
        Context, Datum, Type,
        datetime::{DateStyle, IntervalStyle},
    },
};

/// A query, DML statement or CALL, planned.
pub(crate) struct Plan {
    pub(crate) kind: Kind,
    /// The types of its parameters.
    pub(crate) params: Vec<Type>,
    /// The tables that it looked up, each with how often.
    pub(super) tables: Vec<(usize, Arc<Table>)>,
    /// The version of the catalog, and the settings, that it was planned with.
    pub(super) version: u64,
    search_path: Arc<[String]>,
    time_zone: String,
    /// Text of a date that is a constant has this form, and was read in this order.
    date_style: DateStyle,
    /// Text of an interval that is a constant has this form.
    interval_style: IntervalStyle,
    /// Text of a float that is a constant has so many digits.
    extra_float_digits: i32,
    /// Text of a bytea that is a constant is escaped.
    bytea_escape: bool,
    /// The time of the transaction, if a literal in it stands for that.
    time: Option<i64>,
    /// The error of a constant in it that cannot be computed: no run of it succeeds.
    pub(super) failure: Option<SqlError>,
}

pub(crate) enum Kind {
    Query(Planned),
    Insert(InsertPlan),
    Update(UpdatePlan),
    Delete(DeletePlan),
    Call(CallPlan),
}

impl Plan {
    /// The columns of its result; none if it returns no rows.
    pub(crate) fn columns(&self) -> Option<Arc<[ResultColumn]>> {
        match &self.kind {
            Kind::Query(planned) => Some(planned.columns.clone()),
            Kind::Insert(plan) => plan.returning.as_ref().map(|returning| returning.columns.clone()),
            Kind::Update(plan) => plan.returning.as_ref().map(|returning| returning.columns.clone()),
            Kind::Delete(plan) => plan.returning.as_ref().map(|returning| returning.columns.clone()),
            Kind::Call(plan) => plan.columns.clone(),
        }
    }

    /// True if it is a query.
    pub(crate) fn is_query(&self) -> bool {
        matches!(self.kind, Kind::Query(_))
    }

    /// True if a read-only transaction may run it. A call may run: each statement of its procedure is checked by
    /// itself.
    pub(super) fn is_allowed_read_only(&self) -> bool {
        self.reads_only() || matches!(self.kind, Kind::Call(_))
    }

    /// True if it neither writes nor locks rows.
    pub(crate) fn reads_only(&self) -> bool {
        matches!(&self.kind, Kind::Query(planned) if !planned.locks_rows())
    }

    /// Returns its name for the message that refuses it.
    pub(super) fn what(&self) -> &'static str {
        match &self.kind {
            Kind::Query(_) => "SELECT FOR UPDATE",
            Kind::Insert(_) => "INSERT",
            Kind::Update(_) => "UPDATE",
            Kind::Delete(_) => "DELETE",
            Kind::Call(_) => "CALL",
        }
    }

    /// True if it writes to `table`; of a query, if it locks rows of any table.
    pub(super) fn writes_to(&self, table: &Table) -> bool {
        match &self.kind {
            Kind::Query(planned) => planned.locks_rows(),
            Kind::Insert(plan) => plan.table().oid == table.oid,
            Kind::Update(plan) => plan.table().oid == table.oid,
            Kind::Delete(plan) => plan.table().oid == table.oid,
            Kind::Call(_) => false,
        }
    }

    /// True if it has looked up a table, or the table of a partition.
    pub(crate) fn reads(&self, relation: Oid) -> bool {
        self.tables.iter().any(|(_, table)| {
            let partitions =
                table.partitioning.iter().flat_map(|partitioning| partitioning.partitions.values());
            table.oid == relation || partitions.into_iter().any(|partition| partition.oid == relation)
        })
    }

    /// The tables that it reads at its snapshot, and not only to find the rows that it writes.
    pub(super) fn tables_read(&self) -> impl Iterator<Item = &Arc<Table>> {
        let is_read = |(look_ups, table): &&(usize, Arc<Table>)| {
            matches!(self.kind, Kind::Query(_)) || *look_ups > usize::from(self.writes_to(table))
        };
        self.tables.iter().filter(is_read).map(|(_, table)| table)
    }

    /// Fails if there are not as many values as the statement has parameters.
    pub(crate) fn refuse_missing(&self, values: &[Datum]) -> Result<()> {
        if self.params.len() <= values.len() {
            return Ok(());
        }
        let missing = format!("there is no parameter ${}", values.len() + 1);
        Err(SqlError::new(SqlState::UNDEFINED_PARAMETER, missing))
    }

    /// Computes what depends on constants only, where the values of parameters are constants. Returns true if anything
    /// was computed from those.
    ///
    /// # Errors
    /// That of the first constant that cannot be computed.
    pub(crate) fn check_constants(&self, types: &Context<'_>, values: &[Datum]) -> Result<bool> {
        let Some(parts) = self.kind.parts() else { return Ok(false) };
        let constants = Constants::new(types, values);
        constants.of_parts(&parts)?;
        Ok(constants.has_computed())
    }

    /// The nodes of EXPLAIN, where updates that commute share locks or not, with their runs if these were measured; none
    /// for a statement without a plan.
    pub(crate) fn explain(&self, semantic_locks: bool, measures: &Measures) -> Option<Node> {
        Some(match &self.kind {
            Kind::Query(planned) => planned.explain(measures),
            Kind::Insert(plan) => plan.explain(semantic_locks, measures),
            Kind::Update(plan) => plan.explain(semantic_locks, measures),
            Kind::Delete(plan) => plan.explain(measures),
            Kind::Call(_) => return None,
        })
    }

    /// True if a plan means the same as one that would be made now, for another run of the same call too.
    pub(crate) fn is_same_again(&self, session: &SessionContext) -> bool {
        self.is_current(session) && self.time.is_none_or(|time| time == session.current.time)
    }

    /// True if a plan was made with the catalog and settings that hold now.
    pub(crate) fn is_current(&self, session: &SessionContext) -> bool {
        self.version == session.catalog_version()
            && (Arc::ptr_eq(&self.search_path, session.settings.search_path())
                || self.search_path == *session.settings.search_path())
            && self.time_zone == session.settings.zone().name()
            && self.date_style == session.settings.date_style()
            && self.interval_style == session.settings.interval_style()
            && self.extra_float_digits == session.settings.extra_float_digits()
            && self.bytea_escape == session.settings.bytea_escape()
    }

    /// Shows its progress, if it writes rows.
    pub(super) fn show_progress(&self, session: &SessionContext) -> Option<Shown> {
        let (command, table) = match &self.kind {
            Kind::Query(_) | Kind::Call(_) => return None,
            Kind::Insert(plan) => ("INSERT", plan.table()),
            Kind::Update(plan) => ("UPDATE", plan.table()),
            Kind::Delete(plan) => ("DELETE", plan.table()),
        };
        Some(session.show_progress(command, table))
    }
}

/// A statement, bound.
struct Bound {
    kind: Kind,
    params: Vec<Type>,
    failure: Option<SqlError>,
}

impl Kind {
    /// Returns the error of the first constant that cannot be computed. The arguments of a call are computed at once.
    fn failing_constant(&self, types: &Context<'_>) -> Option<SqlError> {
        self.parts()?.failing_constant(types)
    }

    fn parts(&self) -> Option<Parts<'_>> {
        Some(match self {
            Kind::Query(planned) => planned.parts(),
            Kind::Insert(plan) => plan.parts(),
            Kind::Update(plan) => plan.parts(),
            Kind::Delete(plan) => plan.parts(),
            Kind::Call(_) => return None,
        })
    }
}

fn bind(
    statement: &Statement,
    types: &Context<'_>,
    view: &View,
    params: &[Type],
    names: Option<&ParameterNames>,
) -> Result<Bound> {
    let mut binder = Binder::new(view, types, params).with_names(names);
    let kind = match statement {
        Statement::Query(query) => Kind::Query(Planned::bind(&mut binder, query)?),
        Statement::Insert(insert) => Kind::Insert(InsertPlan::bind(&mut binder, insert, view)?),
        Statement::Update(update) => Kind::Update(UpdatePlan::bind(&mut binder, update, view)?),
        Statement::Delete(delete) => Kind::Delete(DeletePlan::bind(&mut binder, delete, view)?),
        Statement::Call(call) => Kind::Call(CallPlan::bind(&mut binder, call, view)?),
        _ => return Err(SqlError::unsupported("this statement")),
    };
    let failure = match binder.has_failing_constants() {
        true => kind.failing_constant(types),
        false => None,
    };
    Ok(Bound { kind, params: binder.parameters()?, failure })
}

/// Plans a statement against the catalog as it is now.
pub(crate) fn plan(
    session: &mut SessionContext,
    statement: &Statement,
    params: &[Type],
) -> Result<Arc<Plan>> {
    plan_with_names(session, statement, params, None)
}

/// The same, where parameters have names.
pub(crate) fn plan_with_names(
    session: &mut SessionContext,
    statement: &Statement,
    params: &[Type],
    names: Option<&ParameterNames>,
) -> Result<Arc<Plan>> {
    session.look_up(|session| plan_now(session, statement, params, names))
}

fn plan_now(
    session: &mut SessionContext,
    statement: &Statement,
    params: &[Type],
    names: Option<&ParameterNames>,
) -> Result<Arc<Plan>> {
    let search_path = session.settings.search_path().clone();
    let time_zone = session.settings.zone().name().to_owned();
    let date_style = session.settings.date_style();
    let interval_style = session.settings.interval_style();
    let extra_float_digits = session.settings.extra_float_digits();
    let bytea_escape = session.settings.bytea_escape();
    session.with_types(|types, view| {
        let Bound { kind, params, failure } = bind(statement, types, view, params, names)?;
        let tables = view.tables().into_iter().map(|table| (view.look_ups(table.oid), table)).collect();
        let version = view.catalog.version;
        let time = types.time_was_read.get().then_some(types.transaction_time);
        Ok(Arc::new(Plan {
            kind,
            params,
            tables,
            version,
            search_path,
            time_zone,
            date_style,
            interval_style,
            extra_float_digits,
            bytea_escape,
            time,
            failure,
        }))
    })
}
