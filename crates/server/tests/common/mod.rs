//! Starting servers and speaking to them, over unix sockets so that no ports collide.

// Each test program uses a part of this.
#![allow(dead_code)]

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// The binary under test.
pub(crate) const PRONGHORN: &str = env!("CARGO_BIN_EXE_pronghorn");

/// An empty directory of its own, removed in the end.
#[derive(Debug)]
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("pronghorn-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path.canonicalize().unwrap())
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        env::fs::write_atomic(&path, text.as_bytes()).unwrap();
        path
    }

    pub(crate) fn read(&self, name: &str) -> String {
        String::from_utf8(env::fs::read(self.0.join(name)).unwrap()).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs the binary until it ends.
pub(crate) fn run(folder: &Folder, args: &[&str]) -> Output {
    Command::new(PRONGHORN)
        .args(args)
        .current_dir(&folder.0)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// A server that runs, killed in the end.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) child: Child,
    pub(crate) socket: PathBuf,
}

impl Served {
    /// Starts `program` with a unix socket in `folder` and waits until it answers.
    pub(crate) fn start(program: &str, folder: &Folder, args: &[&str]) -> Served {
        let socket = folder.0.join(format!(
            "{}.sock",
            Path::new(program).file_name().unwrap().display()
        ));
        // A killed process's listener may live on until the kernel has cleaned up after it.
        let _ = env::fs::remove(&socket);
        let log = env::fs::create(socket.with_extension("log")).unwrap();
        let child = Command::new(program)
            .args(args)
            .args(["--port", "0", "--unixsocket"])
            .arg(&socket)
            .current_dir(&folder.0)
            .stdin(Stdio::null())
            .stdout(log)
            .spawn()
            .unwrap();
        let served = Served { child, socket };
        for _ in 0..500 {
            if UnixStream::connect(&served.socket).is_ok() {
                return served;
            }
            env::thread::sleep_ms(20);
        }
        panic!("{program} does not answer");
    }

    pub(crate) fn connect(&self) -> Client {
        let stream = UnixStream::connect(&self.socket).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        Client(BufReader::new(stream))
    }

    /// Waits for its end.
    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill")
            .args(["-s", name, &pid])
            .status()
            .unwrap();
        assert!(status.success());
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A reply: text of simple strings, errors, numbers and bulk strings, or a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    Text(String),
    List(Vec<Reply>),
}

impl Reply {
    pub(crate) fn text(self) -> String {
        match self {
            Reply::Text(text) => text,
            Reply::List(list) => panic!("{list:?} is a list"),
        }
    }

    pub(crate) fn list(self) -> Vec<String> {
        match self {
            Reply::List(list) => list.into_iter().map(Reply::text).collect(),
            Reply::Text(text) => panic!("{text} is no list"),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Client(BufReader<UnixStream>);

impl Client {
    pub(crate) fn call(&mut self, args: &[&str]) -> Reply {
        let mut request = vec![format!("*{}\r\n", args.len())];
        request.extend(
            args.iter()
                .map(|arg| format!("${}\r\n{arg}\r\n", arg.len())),
        );
        let request = request.concat();
        self.0.get_mut().write_all(request.as_bytes()).unwrap();
        self.reply()
    }

    fn reply(&mut self) -> Reply {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        let line = line.trim_end();
        match line.split_at_checked(1) {
            Some(("*", count)) => {
                Reply::List((0..count.parse().unwrap()).map(|_| self.reply()).collect())
            }
            Some(("$", "-1")) => Reply::Text("(nil)".to_owned()),
            Some(("$", len)) => {
                let mut bytes = vec![0; len.parse::<usize>().unwrap() + 2];
                self.0.read_exact(&mut bytes).unwrap();
                bytes.truncate(bytes.len() - 2);
                Reply::Text(String::from_utf8_lossy(&bytes).into_owned())
            }
            _ => Reply::Text(line.to_owned()),
        }
    }

    /// CONFIG GET of one directive.
    pub(crate) fn get(&mut self, name: &str) -> String {
        self.call(&["config", "get", name])
            .list()
            .pop()
            .unwrap_or_default()
    }
}

/// The original to compare with, if it is installed.
pub(crate) fn original() -> Option<&'static str> {
    let found = Command::new("redis-server")
        .arg("--version")
        .output()
        .ok()?;
    let version = String::from_utf8_lossy(&found.stdout).into_owned();
    version.contains("v=7.0.").then_some("redis-server")
}
