//! PostgreSQL's keywords, with what each may stand for.

/// A list of keywords becomes an enum and a table. The letters: `U` unreserved, `C` may name a column or table but no
/// function or type, `T` may name a function or type, `R` reserved; with `A`, AS must precede it as a label.
macro_rules! keywords {
    ($($variant:ident $text:literal $kind:ident $($label:ident)?,)*) => {
        /// A keyword of PostgreSQL 15.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "PostgreSQL's own words")]
        #[repr(u16)]
        pub enum Keyword {
            $($variant,)*
        }

        const ALL: &[(Keyword, &str, Class, bool)] = &[
            $((Keyword::$variant, $text, Class::$kind, keywords!(@bare $($label)?)),)*
        ];
    };
    (@bare) => { true };
    (@bare $label:ident) => { false };
}

/// The class of a keyword: the names that it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// Unreserved: any name.
    U,
    /// The name of a column or table, but not of a function or type.
    C,
    /// The name of a function or type, but not of a column or table.
    T,
    /// Reserved: only a label.
    R,
}

impl Keyword {
    /// Returns the keyword of a word in lower case.
    pub fn of(word: &str) -> Option<Keyword> {
        let mut slot = hash(word.as_bytes());
        loop {
            match TABLE[slot] {
                0 => return None,
                entry => {
                    let (keyword, text, ..) = ALL[entry as usize - 1];
                    if text == word {
                        return Some(keyword);
                    }
                }
            }
            slot = (slot + 1) % SLOTS;
        }
    }

    /// Returns the word, in lower case.
    pub fn text(self) -> &'static str {
        ALL[self as usize].1
    }

    fn class(self) -> Class {
        ALL[self as usize].2
    }

    /// True if it may name a column, table or other object.
    pub(crate) fn may_name_column(self) -> bool {
        matches!(self.class(), Class::U | Class::C)
    }

    /// True if it may name anything without quotes.
    pub(crate) fn may_name_anything(self) -> bool {
        self.class() == Class::U
    }

    /// True if it may name a function or type.
    pub(crate) fn may_name_function(self) -> bool {
        matches!(self.class(), Class::U | Class::T)
    }

    /// True if it is reserved.
    pub(crate) fn is_reserved(self) -> bool {
        self.class() == Class::R
    }

    /// True if it may be a label without AS.
    pub(crate) fn may_be_bare_label(self) -> bool {
        ALL[self as usize].3
    }
}

/// Slots of the hash table; a third is in use.
const SLOTS: usize = 2048;

/// For each slot the number of a keyword, counted from one; zero if it is empty.
static TABLE: [u16; SLOTS] = table();

const fn table() -> [u16; SLOTS] {
    let mut table = [0; SLOTS];
    let mut at = 0;
    while at < ALL.len() {
        let mut slot = hash(ALL[at].1.as_bytes());
        while table[slot] != 0 {
            slot = (slot + 1) % SLOTS;
        }
        table[slot] = at as u16 + 1;
        at += 1;
    }
    table
}

const fn hash(word: &[u8]) -> usize {
    let mut hash = 0x811c_9dc5_u32;
    let mut at = 0;
    while at < word.len() {
        hash = (hash ^ word[at] as u32).wrapping_mul(0x0100_0193);
        at += 1;
    }
    (hash ^ (hash >> 15)) as usize % SLOTS
}

keywords! {
    Abort "abort" U,
    Absolute "absolute" U,
    Access "access" U,
    Action "action" U,
    Add "add" U,
    Admin "admin" U,
    After "after" U,
    Aggregate "aggregate" U,
    All "all" R,
    Also "also" U,
    Alter "alter" U,
    Always "always" U,
    Analyse "analyse" R,
    Analyze "analyze" R,
    And "and" R,
    Any "any" R,
    Array "array" R A,
    As "as" R A,
    Asc "asc" R,
    Asensitive "asensitive" U,
    Assertion "assertion" U,
    Assignment "assignment" U,
    Asymmetric "asymmetric" R,
    At "at" U,
    Atomic "atomic" U,
    Attach "attach" U,
    Attribute "attribute" U,
    Authorization "authorization" T,
    Backward "backward" U,
    Before "before" U,
    Begin "begin" U,
    Between "between" C,
    Bigint "bigint" C,
    Binary "binary" T,
    Bit "bit" C,
    Boolean "boolean" C,
    Both "both" R,
    Breadth "breadth" U,
    By "by" U,
    Cache "cache" U,
    Call "call" U,
    Called "called" U,
    Cascade "cascade" U,
    Cascaded "cascaded" U,
    Case "case" R,
    Cast "cast" R,
    Catalog "catalog" U,
    Chain "chain" U,
    Char "char" C A,
    Character "character" C A,
    Characteristics "characteristics" U,
    Check "check" R,
    Checkpoint "checkpoint" U,
    Class "class" U,
    Close "close" U,
    Cluster "cluster" U,
    Coalesce "coalesce" C,
    Collate "collate" R,
    Collation "collation" T,
    Column "column" R,
    Columns "columns" U,
    Comment "comment" U,
    Comments "comments" U,
    Commit "commit" U,
    Committed "committed" U,
    Compression "compression" U,
    Concurrently "concurrently" T,
    Configuration "configuration" U,
    Conflict "conflict" U,
    Connection "connection" U,
    Constraint "constraint" R,
    Constraints "constraints" U,
    Content "content" U,
    Continue "continue" U,
    Conversion "conversion" U,
    Copy "copy" U,
    Cost "cost" U,
    Create "create" R A,
    Cross "cross" T,
    Csv "csv" U,
    Cube "cube" U,
    Current "current" U,
    CurrentCatalog "current_catalog" R,
    CurrentDate "current_date" R,
    CurrentRole "current_role" R,
    CurrentSchema "current_schema" T,
    CurrentTime "current_time" R,
    CurrentTimestamp "current_timestamp" R,
    CurrentUser "current_user" R,
    Cursor "cursor" U,
    Cycle "cycle" U,
    Data "data" U,
    Database "database" U,
    Day "day" U A,
    Deallocate "deallocate" U,
    Dec "dec" C,
    Decimal "decimal" C,
    Declare "declare" U,
    Default "default" R,
    Defaults "defaults" U,
    Deferrable "deferrable" R,
    Deferred "deferred" U,
    Definer "definer" U,
    Delete "delete" U,
    Delimiter "delimiter" U,
    Delimiters "delimiters" U,
    Depends "depends" U,
    Depth "depth" U,
    Desc "desc" R,
    Detach "detach" U,
    Dictionary "dictionary" U,
    Disable "disable" U,
    Discard "discard" U,
    Distinct "distinct" R,
    Do "do" R,
    Document "document" U,
    Domain "domain" U,
    Double "double" U,
    Drop "drop" U,
    Each "each" U,
    Else "else" R,
    Enable "enable" U,
    Encoding "encoding" U,
    Encrypted "encrypted" U,
    End "end" R,
    Enum "enum" U,
    Escape "escape" U,
    Event "event" U,
    Except "except" R A,
    Exclude "exclude" U,
    Excluding "excluding" U,
    Exclusive "exclusive" U,
    Execute "execute" U,
    Exists "exists" C,
    Explain "explain" U,
    Expression "expression" U,
    Extension "extension" U,
    External "external" U,
    Extract "extract" C,
    False "false" R,
    Family "family" U,
    Fetch "fetch" R A,
    Filter "filter" U A,
    Finalize "finalize" U,
    First "first" U,
    Float "float" C,
    Following "following" U,
    For "for" R A,
    Force "force" U,
    Foreign "foreign" R,
    Forward "forward" U,
    Freeze "freeze" T,
    From "from" R A,
    Full "full" T,
    Function "function" U,
    Functions "functions" U,
    Generated "generated" U,
    Global "global" U,
    Grant "grant" R A,
    Granted "granted" U,
    Greatest "greatest" C,
    Group "group" R A,
    Grouping "grouping" C,
    Groups "groups" U,
    Handler "handler" U,
    Having "having" R A,
    Header "header" U,
    Hold "hold" U,
    Hour "hour" U A,
    Identity "identity" U,
    If "if" U,
    Ilike "ilike" T,
    Immediate "immediate" U,
    Immutable "immutable" U,
    Implicit "implicit" U,
    Import "import" U,
    In "in" R,
    Include "include" U,
    Including "including" U,
    Increment "increment" U,
    Index "index" U,
    Indexes "indexes" U,
    Inherit "inherit" U,
    Inherits "inherits" U,
    Initially "initially" R,
    Inline "inline" U,
    Inner "inner" T,
    Inout "inout" C,
    Input "input" U,
    Insensitive "insensitive" U,
    Insert "insert" U,
    Instead "instead" U,
    Int "int" C,
    Integer "integer" C,
    Intersect "intersect" R A,
    Interval "interval" C,
    Into "into" R A,
    Invoker "invoker" U,
    Is "is" T,
    Isnull "isnull" T A,
    Isolation "isolation" U,
    Join "join" T,
    Key "key" U,
    Label "label" U,
    Language "language" U,
    Large "large" U,
    Last "last" U,
    Lateral "lateral" R,
    Leading "leading" R,
    Leakproof "leakproof" U,
    Least "least" C,
    Left "left" T,
    Level "level" U,
    Like "like" T,
    Limit "limit" R A,
    Listen "listen" U,
    Load "load" U,
    Local "local" U,
    Localtime "localtime" R,
    Localtimestamp "localtimestamp" R,
    Location "location" U,
    Lock "lock" U,
    Locked "locked" U,
    Logged "logged" U,
    Mapping "mapping" U,
    Match "match" U,
    Matched "matched" U,
    Materialized "materialized" U,
    Maxvalue "maxvalue" U,
    Merge "merge" U,
    Method "method" U,
    Minute "minute" U A,
    Minvalue "minvalue" U,
    Mode "mode" U,
    Month "month" U A,
    Move "move" U,
    Name "name" U,
    Names "names" U,
    National "national" C,
    Natural "natural" T,
    Nchar "nchar" C,
    New "new" U,
    Next "next" U,
    Nfc "nfc" U,
    Nfd "nfd" U,
    Nfkc "nfkc" U,
    Nfkd "nfkd" U,
    No "no" U,
    None "none" C,
    Normalize "normalize" C,
    Normalized "normalized" U,
    Not "not" R,
    Nothing "nothing" U,
    Notify "notify" U,
    Notnull "notnull" T A,
    Nowait "nowait" U,
    Null "null" R,
    Nullif "nullif" C,
    Nulls "nulls" U,
    Numeric "numeric" C,
    Object "object" U,
    Of "of" U,
    Off "off" U,
    Offset "offset" R A,
    Oids "oids" U,
    Old "old" U,
    On "on" R A,
    Only "only" R,
    Operator "operator" U,
    Option "option" U,
    Options "options" U,
    Or "or" R,
    Order "order" R A,
    Ordinality "ordinality" U,
    Others "others" U,
    Out "out" C,
    Outer "outer" T,
    Over "over" U A,
    Overlaps "overlaps" T A,
    Overlay "overlay" C,
    Overriding "overriding" U,
    Owned "owned" U,
    Owner "owner" U,
    Parallel "parallel" U,
    Parameter "parameter" U,
    Parser "parser" U,
    Partial "partial" U,
    Partition "partition" U,
    Passing "passing" U,
    Password "password" U,
    Placing "placing" R,
    Plans "plans" U,
    Policy "policy" U,
    Position "position" C,
    Preceding "preceding" U,
    Precision "precision" C A,
    Prepare "prepare" U,
    Prepared "prepared" U,
    Preserve "preserve" U,
    Primary "primary" R,
    Prior "prior" U,
    Privileges "privileges" U,
    Procedural "procedural" U,
    Procedure "procedure" U,
    Procedures "procedures" U,
    Program "program" U,
    Publication "publication" U,
    Quote "quote" U,
    Range "range" U,
    Read "read" U,
    Real "real" C,
    Reassign "reassign" U,
    Recheck "recheck" U,
    Recursive "recursive" U,
    Ref "ref" U,
    References "references" R,
    Referencing "referencing" U,
    Refresh "refresh" U,
    Reindex "reindex" U,
    Relative "relative" U,
    Release "release" U,
    Rename "rename" U,
    Repeatable "repeatable" U,
    Replace "replace" U,
    Replica "replica" U,
    Reset "reset" U,
    Restart "restart" U,
    Restrict "restrict" U,
    Return "return" U,
    Returning "returning" R A,
    Returns "returns" U,
    Revoke "revoke" U,
    Right "right" T,
    Role "role" U,
    Rollback "rollback" U,
    Rollup "rollup" U,
    Routine "routine" U,
    Routines "routines" U,
    Row "row" C,
    Rows "rows" U,
    Rule "rule" U,
    Savepoint "savepoint" U,
    Schema "schema" U,
    Schemas "schemas" U,
    Scroll "scroll" U,
    Search "search" U,
    Second "second" U A,
    Security "security" U,
    Select "select" R,
    Sequence "sequence" U,
    Sequences "sequences" U,
    Serializable "serializable" U,
    Server "server" U,
    Session "session" U,
    SessionUser "session_user" R,
    Set "set" U,
    Setof "setof" C,
    Sets "sets" U,
    Share "share" U,
    Show "show" U,
    Similar "similar" T,
    Simple "simple" U,
    Skip "skip" U,
    Smallint "smallint" C,
    Snapshot "snapshot" U,
    Some "some" R,
    Sql "sql" U,
    Stable "stable" U,
    Standalone "standalone" U,
    Start "start" U,
    Statement "statement" U,
    Statistics "statistics" U,
    Stdin "stdin" U,
    Stdout "stdout" U,
    Storage "storage" U,
    Stored "stored" U,
    Strict "strict" U,
    Strip "strip" U,
    Subscription "subscription" U,
    Substring "substring" C,
    Support "support" U,
    Symmetric "symmetric" R,
    Sysid "sysid" U,
    System "system" U,
    Table "table" R,
    Tables "tables" U,
    Tablesample "tablesample" T,
    Tablespace "tablespace" U,
    Temp "temp" U,
    Template "template" U,
    Temporary "temporary" U,
    Text "text" U,
    Then "then" R,
    Ties "ties" U,
    Time "time" C,
    Timestamp "timestamp" C,
    To "to" R A,
    Trailing "trailing" R,
    Transaction "transaction" U,
    Transform "transform" U,
    Treat "treat" C,
    Trigger "trigger" U,
    Trim "trim" C,
    True "true" R,
    Truncate "truncate" U,
    Trusted "trusted" U,
    Type "type" U,
    Types "types" U,
    Uescape "uescape" U,
    Unbounded "unbounded" U,
    Uncommitted "uncommitted" U,
    Unencrypted "unencrypted" U,
    Union "union" R A,
    Unique "unique" R,
    Unknown "unknown" U,
    Unlisten "unlisten" U,
    Unlogged "unlogged" U,
    Until "until" U,
    Update "update" U,
    User "user" R,
    Using "using" R,
    Vacuum "vacuum" U,
    Valid "valid" U,
    Validate "validate" U,
    Validator "validator" U,
    Value "value" U,
    Values "values" C,
    Varchar "varchar" C,
    Variadic "variadic" R,
    Varying "varying" U A,
    Verbose "verbose" T,
    Version "version" U,
    View "view" U,
    Views "views" U,
    Volatile "volatile" U,
    When "when" R,
    Where "where" R A,
    Whitespace "whitespace" U,
    Window "window" R A,
    With "with" R A,
    Within "within" U A,
    Without "without" U A,
    Work "work" U,
    Wrapper "wrapper" U,
    Write "write" U,
    Xml "xml" U,
    Xmlattributes "xmlattributes" C,
    Xmlconcat "xmlconcat" C,
    Xmlelement "xmlelement" C,
    Xmlexists "xmlexists" C,
    Xmlforest "xmlforest" C,
    Xmlnamespaces "xmlnamespaces" C,
    Xmlparse "xmlparse" C,
    Xmlpi "xmlpi" C,
    Xmlroot "xmlroot" C,
    Xmlserialize "xmlserialize" C,
    Xmltable "xmltable" C,
    Year "year" U A,
    Yes "yes" U,
    Zone "zone" U,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_keyword_is_found_by_its_text() {
        for (keyword, text, ..) in ALL {
            assert_eq!(Keyword::of(text), Some(*keyword));
            assert_eq!(keyword.text(), *text);
        }
        assert_eq!(Keyword::of("selec"), None);
        assert_eq!(Keyword::of(""), None);
    }
}
