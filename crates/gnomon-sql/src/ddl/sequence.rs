//! CREATE and ALTER SEQUENCE.

use std::sync::Arc;

use gnomon_engine::TreeLock;
use gnomon_parser::ast::{
    AlterSequence, CreateSequence, Persistence, QualifiedName, RelationName, SequenceOption,
    SequenceOptionKind,
};

use super::{Ddl, clauses::sequence_cache, column_of, refuse_taken};
use crate::{
    Notice, Result, SqlError, SqlState,
    catalog::{
        Relation,
        model::{Oid, Sequence, Table},
    },
    query::relation_of,
    sink::{Tag, tag},
    types::{ColumnType, Type, column_type},
};

/// The options of a sequence that were given so far.
pub(super) struct SequenceSpec {
    ty: ColumnType,
    increment: i64,
    min: Option<i64>,
    max: Option<i64>,
    start: Option<i64>,
    cycle: bool,
    /// RESTART, with its value if one was given.
    pub(super) restart: Option<Option<i64>>,
    /// OWNED BY, with the column; none for NONE.
    owned_by: Option<Option<QualifiedName>>,
    /// SEQUENCE NAME.
    pub(super) name: Option<RelationName>,
}

fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn conflicting(option: &SequenceOption) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, "conflicting or redundant options").at(option.position)
}

/// The value of an option as a number.
fn number(text: &str) -> Result<i64> {
    let digits = text.trim_start_matches(['-', '+']);
    text.parse().map_err(|_| match digits.bytes().all(|digit| digit.is_ascii_digit()) {
        true => SqlError::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            format!("value \"{text}\" is out of range for type bigint"),
        ),
        false => SqlError::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            format!("invalid input syntax for type bigint: \"{text}\""),
        ),
    })
}

/// The values of an integer type.
fn range(ty: Type) -> (i64, i64) {
    match ty {
        Type::Int2 => (i16::MIN.into(), i16::MAX.into()),
        Type::Int4 => (i32::MIN.into(), i32::MAX.into()),
        _ => (i64::MIN, i64::MAX),
    }
}

impl SequenceSpec {
    /// An ascending sequence of a type.
    pub(super) fn new(ty: ColumnType) -> SequenceSpec {
        SequenceSpec {
            ty,
            increment: 1,
            min: None,
            max: None,
            start: None,
            cycle: false,
            restart: None,
            owned_by: None,
            name: None,
        }
    }

    /// Returns the options that a sequence has.
    pub(super) fn of(sequence: &Sequence) -> SequenceSpec {
        SequenceSpec {
            ty: sequence.ty,
            increment: sequence.increment,
            min: Some(sequence.min),
            max: Some(sequence.max),
            start: Some(sequence.start),
            cycle: sequence.cycle,
            restart: None,
            owned_by: None,
            name: None,
        }
    }

    /// Returns the options of the sequence of an identity column.
    pub(super) fn of_identity(ty: ColumnType, options: &[SequenceOption]) -> Result<SequenceSpec> {
        let mut spec = SequenceSpec::new(ty);
        spec.set_type(ty, "identity column")?;
        for option in options {
            match &option.kind {
                SequenceOptionKind::As(_) => return Err(conflicting(option)),
                SequenceOptionKind::OwnedBy(_) => {
                    return Err(SqlError::unsupported("OWNED BY of an identity column").at(option.position));
                }
                SequenceOptionKind::SequenceName(name) => spec.name = Some(relation_of(name)?),
                _ => {}
            }
        }
        spec.apply_all(options)?;
        Ok(spec)
    }

    /// Adds options, each of which may be given once.
    pub(super) fn apply_all(&mut self, options: &[SequenceOption]) -> Result<()> {
        for (at, option) in options.iter().enumerate() {
            let kind = std::mem::discriminant(&option.kind);
            if options[..at].iter().any(|before| std::mem::discriminant(&before.kind) == kind) {
                return Err(conflicting(option));
            }
            self.apply(option)?;
        }
        Ok(())
    }

    /// Gives it another type, of what the words in front of "type" say.
    pub(super) fn set_type(&mut self, ty: ColumnType, of: &str) -> Result<()> {
        if !matches!(ty.ty, Type::Int2 | Type::Int4 | Type::Int8) {
            return Err(invalid(format!("{of} type must be smallint, integer, or bigint")));
        }
        // Bounds that were the former type's become the new one's.
        let ((min, max), (new_min, new_max)) = (range(self.ty.ty), range(ty.ty));
        self.min = self.min.map(|bound| if bound == min { new_min } else { bound });
        self.max = self.max.map(|bound| if bound == max { new_max } else { bound });
        self.ty = ty;
        Ok(())
    }

    fn apply(&mut self, option: &SequenceOption) -> Result<()> {
        use SequenceOptionKind as O;
        match &option.kind {
            O::As(name) => self.set_type(column_type(name)?, "sequence")?,
            O::Increment(text) => match number(text)? {
                0 => return Err(invalid("INCREMENT must not be zero")),
                increment => self.increment = increment,
            },
            O::MinValue(min) => self.min = min.as_deref().map(number).transpose()?,
            O::MaxValue(max) => self.max = max.as_deref().map(number).transpose()?,
            O::Start(start) => self.start = Some(number(start)?),
            O::Restart(value) => self.restart = Some(value.as_deref().map(number).transpose()?),
            O::Cache(text) => {
                let cache = number(text)?;
                if cache <= 0 {
                    return Err(invalid(format!("CACHE ({cache}) must be greater than zero")));
                }
            }
            O::Cycle(cycle) => self.cycle = *cycle,
            O::OwnedBy(owner) => {
                let is_none = matches!(&owner.0[..], [word] if *word.name == *"none");
                self.owned_by = Some((!is_none).then(|| owner.clone()));
            }
            O::SequenceName(_) if self.name.is_some() => {}
            O::SequenceName(_) => {
                let message = "invalid sequence option SEQUENCE NAME";
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(option.position));
            }
            O::Logged(_) => {
                let what = "LOGGED or UNLOGGED of a sequence";
                return Err(SqlError::unsupported(what).at(option.position));
            }
        }
        Ok(())
    }

    /// The sequence, whose bounds are checked.
    pub(super) fn build(
        &self,
        oid: Oid,
        schema: &str,
        name: &str,
        owner: Option<(Oid, usize)>,
    ) -> Result<Sequence> {
        let up = self.increment > 0;
        let (lowest, highest) = range(self.ty.ty);
        let min = self.min.unwrap_or(if up { 1 } else { lowest });
        let max = self.max.unwrap_or(if up { highest } else { -1 });
        for (what, bound) in [("MINVALUE", min), ("MAXVALUE", max)] {
            if bound < lowest || bound > highest {
                let ty = crate::types::format_type(self.ty.ty, None);
                return Err(invalid(format!("{what} ({bound}) is out of range for sequence data type {ty}")));
            }
        }
        if min >= max {
            return Err(invalid(format!("MINVALUE ({min}) must be less than MAXVALUE ({max})")));
        }
        let start = self.start.unwrap_or(if up { min } else { max });
        let within = |what: &str, value: i64| {
            if value < min {
                Err(invalid(format!("{what} value ({value}) cannot be less than MINVALUE ({min})")))
            } else if value > max {
                Err(invalid(format!("{what} value ({value}) cannot be greater than MAXVALUE ({max})")))
            } else {
                Ok(())
            }
        };
        within("START", start)?;
        let first = self.restart.flatten().unwrap_or(start);
        within("RESTART", first)?;
        Ok(Sequence {
            oid,
            schema: schema.to_owned(),
            name: name.to_owned(),
            ty: self.ty,
            increment: self.increment,
            min,
            max,
            start,
            cycle: self.cycle,
            generation: 0,
            first,
            owner,
        })
    }
}

pub(super) fn create_sequence(ddl: &mut Ddl<'_>, create: &CreateSequence) -> Result<Tag> {
    let CreateSequence { name, persistence, if_not_exists, options } = create;
    match persistence {
        Persistence::Permanent => {}
        Persistence::Unlogged => ddl.notices.push(Notice::no_effect("UNLOGGED", "every sequence is durable")),
        Persistence::Temporary => return Err(SqlError::unsupported("a temporary sequence")),
    }
    ddl.begin("CREATE SEQUENCE")?;
    let name = ddl.session.name(name)?;
    let view = ddl.session.view();
    let schema = view.schema_for(&name)?;
    if view.catalog.has_relation(&schema, &name.name) && *if_not_exists {
        ddl.notices.push(Notice::note(
            SqlState::DUPLICATE_TABLE,
            format!("relation \"{}\" already exists, skipping", name.name),
        ));
        return tag("CREATE SEQUENCE");
    }
    refuse_taken(&view, &schema, &name.name)?;
    let mut spec = SequenceSpec::new(ColumnType { ty: Type::Int8, modifier: -1 });
    sequence_cache(options, ddl.notices);
    spec.apply_all(options)?;
    let owner = owner(ddl, &spec, &schema)?.flatten();
    let sequence = spec.build(ddl.session.shared.new_oid()?, &schema, &name.name, owner)?;
    ddl.change(|catalog| catalog.put_sequence(sequence))?;
    tag("CREATE SEQUENCE")
}

pub(super) fn alter_sequence(ddl: &mut Ddl<'_>, alter: &AlterSequence) -> Result<Tag> {
    let AlterSequence { name, if_exists, options } = alter;
    ddl.begin("ALTER SEQUENCE")?;
    let name = ddl.session.name(name)?;
    let sequence = match ddl.session.view().find(&name) {
        Some(Relation::Sequence(sequence)) => sequence,
        Some(_) => {
            return Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("\"{}\" is not a sequence", name.name),
            ));
        }
        None => {
            ddl.skip_missing(&name, "relation", *if_exists)?;
            return tag("ALTER SEQUENCE");
        }
    };
    sequence_cache(options, ddl.notices);
    change_sequence(ddl, &sequence, |spec| spec.apply_all(options))?;
    tag("ALTER SEQUENCE")
}

/// Changes options of a sequence.
pub(super) fn change_sequence(
    ddl: &mut Ddl<'_>,
    sequence: &Sequence,
    change: impl FnOnce(&mut SequenceSpec) -> Result<()>,
) -> Result<()> {
    ddl.lock_sequence(sequence.oid, TreeLock::SharedAlone)?;
    let mut spec = SequenceSpec::of(sequence);
    change(&mut spec)?;
    let owner = match owner(ddl, &spec, &sequence.schema)? {
        Some(owner) => {
            refuse_change_of_owner(ddl, sequence)?;
            owner
        }
        None => sequence.owner,
    };
    let mut changed = spec.build(sequence.oid, &sequence.schema, &sequence.name, owner)?;
    let (last, drawn) = ddl.session.shared.sequences.last(&ddl.session.shared.engine, sequence)?;
    if spec.restart.is_some() {
        changed.generation = sequence.generation.wrapping_add(1);
    } else {
        if last < changed.min || last > changed.max {
            let (what, bound) = if last < changed.min {
                ("less than MINVALUE", changed.min)
            } else {
                ("greater than MAXVALUE", changed.max)
            };
            return Err(invalid(format!("RESTART value ({last}) cannot be {what} ({bound})")));
        }
        changed.generation = sequence.generation;
        changed.first = if drawn { sequence.first } else { last };
    }
    ddl.change(|catalog| catalog.put_sequence(changed)).map(drop)
}

/// Returns the table whose identity column draws from a sequence.
fn table_of_identity(ddl: &Ddl<'_>, sequence: &Sequence) -> Option<Arc<Table>> {
    let (table, position) = sequence.owner?;
    let table = ddl.session.catalog().table_by_oid(table).cloned()?;
    let identity = table.columns.get(position)?.identity?;
    (identity.sequence == sequence.oid).then_some(table)
}

fn refuse_change_of_owner(ddl: &Ddl<'_>, sequence: &Sequence) -> Result<()> {
    let Some(table) = table_of_identity(ddl, sequence) else { return Ok(()) };
    let message = "cannot change ownership of identity sequence";
    Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
        .detail(format!("Sequence \"{}\" is linked to table \"{}\".", sequence.name, table.name)))
}

/// The column of OWNED BY, for a sequence in a schema; none if the option was not given.
fn owner(ddl: &mut Ddl<'_>, spec: &SequenceSpec, schema: &str) -> Result<Option<Option<(Oid, usize)>>> {
    let Some(owned_by) = &spec.owned_by else { return Ok(None) };
    let Some(name) = owned_by else { return Ok(Some(None)) };
    let mut table = name.clone();
    let column = match table.0.pop() {
        Some(column) if !table.0.is_empty() => column,
        _ => {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "invalid OWNED BY option")
                .hint("Specify OWNED BY table.column or OWNED BY NONE."));
        }
    };
    let (view, name) = (ddl.session.view(), ddl.session.name(&relation_of(&table)?)?);
    if let Some(other @ (Relation::Index(..) | Relation::Sequence(_))) = view.find(&name) {
        let message = format!("sequence cannot be owned by relation \"{}\"", name.name);
        let kinds = if matches!(other, Relation::Index(..)) { "indexes" } else { "sequences" };
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
            .detail(format!("This operation is not supported for {kinds}.")));
    }
    let table = view.table(&name)?;
    if table.schema != schema {
        let message = "sequence must be in same schema as table it is linked to";
        return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
    }
    let position = column_of(&table, &column)?;
    Ok(Some(Some((table.oid, position))))
}
