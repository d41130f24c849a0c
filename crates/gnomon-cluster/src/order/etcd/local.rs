//! Nodes of etcd as processes of this machine, for experiments and tests: on loopback, on free ports.

use std::{
    io::{self, Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// A cluster of etcd nodes. Dropped, they are stopped.
#[derive(Debug)]
pub struct LocalEtcd {
    nodes: Vec<Option<Child>>,
    /// Of clients and of the nodes among each other.
    ports: Vec<(u16, u16)>,
    directory: PathBuf,
    options: Vec<String>,
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn url(scheme: &str, port: u16) -> String {
    format!("{scheme}://127.0.0.1:{port}")
}

impl LocalEtcd {
    /// Starts so many nodes with their data in a directory, and more options of the program `etcd`.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if it is not installed (Debian package `etcd-server`), and others of starting it.
    pub fn start(directory: &Path, nodes: usize, options: &[&str]) -> io::Result<LocalEtcd> {
        let mut etcd = LocalEtcd {
            nodes: (0..nodes).map(|_| None).collect(),
            ports: (0..nodes).map(|_| Ok((free_port()?, free_port()?))).collect::<io::Result<_>>()?,
            directory: directory.to_owned(),
            options: options.iter().map(|option| option.to_string()).collect(),
        };
        (0..nodes).try_for_each(|node| etcd.start_node(node))?;
        Ok(etcd)
    }

    /// Starts a node that was killed, with the data that it has.
    ///
    /// # Errors
    /// Those of [`LocalEtcd::start`].
    pub fn start_node(&mut self, node: usize) -> io::Result<()> {
        let (client, peer) = self.ports[node];
        let cluster: Vec<String> = self
            .ports
            .iter()
            .enumerate()
            .map(|(node, (_, peer))| format!("{node}={}", url("http", *peer)))
            .collect();
        let child = Command::new("etcd")
            .args(["--name", &node.to_string()])
            .args(["--data-dir".as_ref(), self.directory.join(node.to_string()).as_os_str()])
            .args(["--listen-client-urls", &self.url(client), "--advertise-client-urls", &self.url(client)])
            .args([
                "--listen-peer-urls",
                &url("http", peer),
                "--initial-advertise-peer-urls",
                &url("http", peer),
            ])
            .args(["--initial-cluster", &cluster.join(",")])
            // Nodes of one machine hear of each other soon.
            .args(["--heartbeat-interval=50", "--election-timeout=500"])
            .args(&self.options)
            // Debian's etcd asks for this where it runs on ARM, and takes no notice elsewhere.
            .env("ETCD_UNSUPPORTED_ARCH", "arm64")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C reaches the program that has started it, which ends it then.
            .process_group(0)
            .spawn()?;
        self.nodes[node] = Some(child);
        Ok(())
    }

    /// Ends a node at once, as by `kill -9`.
    ///
    /// # Errors
    /// Those of the system.
    pub fn kill(&mut self, node: usize) -> io::Result<()> {
        if let Some(mut child) = self.nodes[node].take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// The process of a node.
    pub fn process_id(&self, node: usize) -> Option<u32> {
        self.nodes[node].as_ref().map(Child::id)
    }

    /// Returns the number of nodes.
    pub fn count(&self) -> usize {
        self.nodes.len()
    }

    /// The port of a node for clients.
    pub fn port(&self, node: usize) -> u16 {
        self.ports[node].0
    }

    /// Asks a node over HTTP: a path of its gateway, such as `/v3/kv/put`, and a request in JSON. Returns the answer, with
    /// its head.
    ///
    /// # Errors
    /// Those of the connection.
    pub fn post(&self, node: usize, path: &str, request: &str) -> io::Result<String> {
        self.post_with(node, path, request, "")
    }

    /// The same, with the token of a user.
    ///
    /// # Errors
    /// Those of the connection.
    pub fn post_with(&self, node: usize, path: &str, request: &str, token: &str) -> io::Result<String> {
        let authorization =
            if token.is_empty() { String::new() } else { format!("Authorization: {token}\r\n") };
        let mut stream = TcpStream::connect(("127.0.0.1", self.port(node)))?;
        let length = request.len();
        write!(stream, "POST {path} HTTP/1.0\r\n{authorization}Content-Length: {length}\r\n\r\n{request}")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// Returns the URL at which clients reach a port: with TLS if the nodes have a certificate.
    fn url(&self, port: u16) -> String {
        let is_encrypted = self.options.iter().any(|option| option.starts_with("--cert-file="));
        url(if is_encrypted { "https" } else { "http" }, port)
    }

    /// The URLs of all nodes, this one first, with commas.
    pub fn endpoints(&self, first: usize) -> String {
        let count = self.ports.len();
        let endpoints: Vec<String> =
            (0..count).map(|place| self.url(self.ports[(first + place) % count].0)).collect();
        endpoints.join(",")
    }
}

impl Drop for LocalEtcd {
    fn drop(&mut self) {
        for node in 0..self.nodes.len() {
            // What cannot be ended now ends with this process's group.
            let _ = self.kill(node);
        }
    }
}
