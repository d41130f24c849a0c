use super::*;

fn open_file(directory: &tempfile::TempDir) -> OpenFile {
    let disk = FileDisk::open(directory.path(), false).unwrap();
    Disk::open(&disk, "file", true).unwrap();
    let fd = fs::openat(&disk.directory.fd, "file", OFlags::RDWR, Mode::empty()).unwrap();
    OpenFile::new("file", fd.into(), &disk.directory, disk.open_direct("file"))
}

#[test]
fn one_handle_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let disk = FileDisk::open(directory.path(), true).unwrap();
    assert!(matches!(FileDisk::open(directory.path(), true), Err(Error::InUse { .. })));
    assert!(matches!(FileDisk::open_read_only(directory.path()), Err(Error::InUse { .. })));
    let file = Disk::open(&disk, "file", true).unwrap();
    drop(disk);
    assert!(FileDisk::open(directory.path(), false).is_err(), "an open file keeps the lock");
    drop(file);
    FileDisk::open(directory.path(), false).unwrap();
}

#[test]
fn a_path_without_a_directory_is_no_database() {
    let file = tempfile::NamedTempFile::new().unwrap();
    for create in [false, true] {
        let error = FileDisk::open(file.path(), create).err().unwrap();
        assert!(matches!(error, Error::NotADatabase { .. }), "{error}");
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("new");
    let error = FileDisk::open(&path, false).err().unwrap();
    assert!(error.to_string().contains("no such directory"), "{error}");
    let error = FileDisk::open(path.join("below"), true).err().unwrap();
    assert!(matches!(error, Error::NotADatabase { .. }), "the parent is absent: {error}");
    FileDisk::open(&path, true).unwrap();
}

#[test]
fn failures_to_open_are_explained() {
    for (errno, text) in [
        (Errno::ROFS, "I/O error: dir is on a read-only file system"),
        (Errno::ACCESS, "I/O error: dir is not accessible to this user"),
        (Errno::NOTDIR, "dir is not a Gnomon database: it is not a directory"),
    ] {
        assert_eq!(explain(Path::new("dir"), errno).to_string(), text);
    }
    assert!(matches!(explain(Path::new("dir"), Errno::NOSPC), Error::DiskFull));
}

#[test]
fn what_was_written_is_there_after_reopening() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("new");
    let disk = FileDisk::open(&path, true).unwrap();
    let file = Disk::open(&disk, "file", true).unwrap();
    file.write_at(10, b"gnomon").unwrap();
    file.sync().unwrap();
    drop((disk, file));
    let readers = [(); 2].map(|()| FileDisk::open_read_only(&path).unwrap());
    for disk in &readers {
        assert_eq!(disk.list().unwrap(), ["file"]);
        let mut buf = [0; 6];
        let file = Disk::open(disk, "file", false).unwrap();
        file.read_at(10, &mut buf).unwrap();
        assert_eq!(&buf, b"gnomon");
        for result in [
            file.write_at(0, b"x"),
            file.allocate(1 << 20),
            file.truncate(0),
            file.punch(0, 1),
            disk.rename("file", "other"),
            disk.remove("file"),
            Disk::open(disk, "other", true).map(drop),
        ] {
            assert_eq!(result.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        }
    }
    assert!(matches!(FileDisk::open(&path, false), Err(Error::InUse { .. })), "readers keep writers out");
}

#[test]
fn errors_name_the_operation_and_the_path() {
    let directory = tempfile::tempdir().unwrap();
    let file = open_file(&directory);
    let disk = FileDisk { directory: file.directory.clone() };
    let mut buf = [0; 8];
    let file_path = directory.path().join("file");
    let file_path = file_path.display();
    let errors = [
        (Disk::open(&disk, "absent", false).err(), "open", io::ErrorKind::NotFound),
        (disk.rename("absent", "other").err(), "rename", io::ErrorKind::NotFound),
        (disk.remove("absent").err(), "remove", io::ErrorKind::NotFound),
    ];
    for (error, operation, kind) in errors {
        let error = error.unwrap();
        let begin = format!("cannot {operation} {}: ", directory.path().join("absent").display());
        assert!(error.to_string().starts_with(&begin) && error.kind() == kind, "{error}");
    }
    let errors = [
        (file.read_at(0, &mut buf), "read", io::ErrorKind::UnexpectedEof),
        (file.write_at(i64::MAX as u64 - 1, b"far beyond"), "write", io::ErrorKind::StorageFull),
        (file.allocate(1 << 62), "reserve space for", io::ErrorKind::StorageFull),
    ];
    for (result, operation, kind) in errors {
        let error = result.unwrap_err();
        assert!(error.to_string().starts_with(&format!("cannot {operation} {file_path}: ")), "{error}");
        assert!(error.kind() == kind || operation == "write", "{error:?}");
    }
}

#[test]
fn directories_are_not_listed() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("lost+found")).unwrap();
    let disk = FileDisk::open(directory.path(), false).unwrap();
    Disk::open(&disk, "b", true).unwrap();
    Disk::open(&disk, "a", true).unwrap();
    assert_eq!(disk.list().unwrap(), ["a", "b"]);
}

#[test]
fn what_is_no_regular_file_is_refused_by_its_name_and_left_alone() {
    let outside = tempfile::tempdir().unwrap();
    let target = outside.path().join("target");
    let disk = FileDisk::open(outside.path(), false).unwrap();
    Disk::open(&disk, "target", true).unwrap().write_at(0, b"kept").unwrap();
    type Make<'a> = &'a dyn Fn(&Path);
    let make: [(&str, Make<'_>); 5] = [
        ("a symbolic link", &|path| std::os::unix::fs::symlink(&target, path).unwrap()),
        ("a symbolic link", &|path| std::os::unix::fs::symlink("/nowhere/at/all", path).unwrap()),
        ("a pipe", &|path| fs::mkfifoat(fs::CWD, path, Mode::RWXU).unwrap()),
        ("a directory", &|path| std::fs::create_dir(path).unwrap()),
        ("a socket", &|path| drop(std::os::unix::net::UnixListener::bind(path).unwrap())),
    ];
    let names = [
        "pages",
        "pages.new",
        "disks",
        "disks.new",
        "commits",
        "commits.0",
        "logged-pages",
        "redo-0.0",
        "ops.1",
    ];
    for (kind, make) in make {
        for name in names {
            let directory = tempfile::tempdir().unwrap();
            let opened = FileDisk::open(directory.path(), false).unwrap();
            make(&directory.path().join(name));
            // Also if it was put there just now.
            for create in [false, true] {
                let error = Disk::open(&opened, name, create).err().unwrap().to_string();
                assert!(error.contains(&format!("its '{name}' is {kind}")), "{error}");
            }
            drop(opened);
            let refused = |error: Option<Error>| {
                let error = error.expect("refused");
                assert!(matches!(error, Error::NotADatabase { .. }), "{error}");
                assert!(error.to_string().contains(&format!("its '{name}' is {kind}")), "{error}");
            };
            refused(FileDisk::open(directory.path(), true).err());
            refused(FileDisk::open_read_only(directory.path()).err());
            assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
        }
    }
    assert_eq!(std::fs::read(&target).unwrap(), b"kept");
    let linked = outside.path().join("linked");
    let directory = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(directory.path(), &linked).unwrap();
    FileDisk::open(&linked, true).unwrap();
}

#[test]
fn zeros_stand_in_where_the_file_system_cannot_reserve_or_punch() {
    let directory = tempfile::tempdir().unwrap();
    let file = open_file(&directory);
    file.write_at(0, b"begins").unwrap();
    file.allocate_by(200_000, |_| Err(Errno::OPNOTSUPP)).unwrap();
    assert_eq!(file.len().unwrap(), 200_000);
    file.allocate_by(100, |_| Err(Errno::OPNOTSUPP)).unwrap();
    assert_eq!(file.len().unwrap(), 200_000);
    file.punch_by(1, 3, |_| Err(Errno::OPNOTSUPP)).unwrap();
    let mut buf = [0; 6];
    file.read_at(0, &mut buf).unwrap();
    assert_eq!(&buf, b"b\0\0ins");
    file.punch_by(199_999, 300_000, |_| Err(Errno::OPNOTSUPP)).unwrap();
    assert_eq!(file.len().unwrap(), 200_000);
}

#[test]
fn a_full_disk_gives_back_what_it_reserved() {
    let directory = tempfile::tempdir().unwrap();
    let file = open_file(&directory);
    file.write_at(0, b"begins").unwrap();
    for errno in [Errno::NOSPC, Errno::DQUOT, Errno::FBIG] {
        let result = file.allocate_by(1 << 20, |file| {
            file.set_len(4096).unwrap();
            Err(errno)
        });
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(file.len().unwrap(), 6);
    }
    // More than the largest disk has.
    assert!(file.allocate(1 << 60).is_err());
    assert_eq!(file.len().unwrap(), 6);
}
