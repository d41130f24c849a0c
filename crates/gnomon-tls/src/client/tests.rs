//! Messages and the password of a URL.

use super::Target;

const PASSWORD: &str = "pa55word";

#[test]
fn a_target_is_shown_without_its_password() {
    for (url, shown) in [
        ("postgres://ann:pa55word@db/bank", "postgres://ann@db:5432/bank"),
        ("postgresql://ann:pa55word@a:1,b:2/bank?sslmode=require", "postgres://ann@a:1,b:2/bank"),
        ("postgres://ann@db/bank?password=pa55word", "postgres://ann@db:5432/bank"),
        ("postgres://db?user=ann&p%61ssword=pa55word", "postgres://ann@db:5432/ann"),
        ("postgres://ann:x?pa55word@[::1]:5433/bank", "postgres://ann@[::1]:5433/bank"),
        ("postgres:///bank?host=/run&user=ann&password=pa55word", "postgres://ann@/run:5432/bank"),
    ] {
        let target = Target::parse(url).unwrap();
        assert_eq!(target.to_string(), shown, "{url}");
        assert!(!format!("{target:?}").contains(PASSWORD), "{url}");
        assert!(target.config.get_password().is_some(), "{url}");
    }
}

#[test]
fn no_error_has_the_password() {
    for url in [
        "host=db user=ann password=pa55word sslmode=require",
        "password='pa55word",
        "Postgres://ann:pa55word@db",
        "ann:pa55word@db",
        "postgres://ann:pa55word@db:port",
        "postgres://ann:pa55word@db:99999",
        "postgres://ann:pa55word@[::1",
        "postgres://ann:x/pa55word@db",
        "postgres://db?password=pa55word@db",
        "postgres://db/bank?password=x@pa55word",
        "postgres://ann:pa55word@db?sslmode",
        "postgres://ann:pa55word@db?sslmode=allow",
        "postgres://ann:pa55word@db?sslmode=verify-full",
        "postgres://ann:pa55word@db?sslrootcert=/nowhere",
        "postgres://ann:pa55word@db?sslcert=/nowhere",
        "postgres://ann:pa55word@db?sslnegotiation=pa55word",
        "postgres://ann:pa55word@db?channel_binding=pa55word",
        "postgres://ann:pa55word@db?connect_timeout=pa55word",
        "postgres://ann:pa55word@db?sslcrl=pa55word",
        "postgres://ann:%ff@db?password=%ffpa55word",
    ] {
        match Target::parse(url) {
            Ok(target) => assert!(!target.to_string().contains(PASSWORD), "{url}"),
            Err(error) => {
                assert!(!error.to_string().contains(PASSWORD), "{url}: {error}");
                assert!(!format!("{error:?}").contains(PASSWORD), "{url}: {error:?}");
            }
        }
    }
}
