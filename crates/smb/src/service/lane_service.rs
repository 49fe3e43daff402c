//! SMB on one lane: its connections, and what it serves them from.

use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::net::IpAddr;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lane::Task;
use lane::backend::SocketOption;
use lane::counters::CounterBlock;
use lane::net::TcpStream;
use service::address::{address_of, client_of};
use service::commons::Commons;
use service::connections::Connections;
use service::counters::ConnectionCounters;
use service::memory::{Account, ReplyMemory};
use service::pacer::Ticket;
use service::volumes::LaneVolumes;
use service::{ConnectionRouter, LaneFuture, LaneService, LaneSocket, LaneStart, Role, Site, Switch};
use smb_tree::{
    Apple, DamagedPage, Opens, RequestContext, RestoredOpens, Root, RootSpec, SavedOpens, ShareOptions, Tree,
};
use smb_wire::Status;
use vfs::Caller;

use super::admin_replies;
use super::breaks::{ConnectionTable, LaneBreaks};
use super::lane_mailbox::{self, LaneMailbox};
use super::site::SmbSite;
use crate::audit::Audit;
use crate::connection::{ByAddress, Call, Connection};
use crate::counters::SmbCounters;
use crate::cpu_scheduler::CpuScheduler;
use crate::memory::Pieces;
use crate::options::Options;
use crate::server::ServerState;
use crate::session::{Channel, ChannelsPerSession, LaneTree, TreeKind};
use crate::settings::{PIPES, ShareSection};

/// SMB on one lane.
pub(crate) struct LaneSmb {
    options: RefCell<Arc<Options>>,
    /// Raised by each site: what was made of an earlier one is made anew.
    generation: Cell<u64>,
    pub(crate) server_state: Arc<ServerState>,
    connections: Rc<Connections>,
    connection_counters: Arc<ConnectionCounters>,
    pub(crate) counters: Arc<SmbCounters>,
    pub(crate) by_address: Arc<ByAddress>,
    pub(crate) audit: Audit,
    commons: Commons,
    memory: Rc<ReplyMemory>,
    pub(crate) pieces: Rc<Pieces>,
    pub(crate) cpu_scheduler: CpuScheduler,
    connection_table: ConnectionTable,
    /// The connection whose request is at work just now.
    pub(super) causer: Cell<Option<u64>>,
    pub(crate) lane_mailbox: LaneMailbox,
    tree: Tree,
    /// Takes the lane's mail, and answers administrators.
    tasks: OnceCell<[Task<()>; 2]>,
}

impl LaneSmb {
    pub(crate) fn new(
        options: Arc<Options>,
        server_state: Arc<ServerState>,
        lane: &LaneStart<'_>,
    ) -> Result<Rc<Self>, String> {
        let connection_counters = Arc::<ConnectionCounters>::default();
        let (lane_mailbox, port) = LaneMailbox::open().map_err(|error| format!("SMB: {error}"))?;
        let mut problem = None;
        let me = Rc::new_cyclic(|me| {
            let tree = Tree::new(Arc::clone(server_state.opens()), Rc::new(LaneBreaks(Weak::clone(me))));
            problem = show(&tree, &options, lane.volumes).err();
            Self {
                connection_table: ConnectionTable::default(),
                causer: Cell::new(None),
                lane_mailbox,
                tree,
                tasks: OnceCell::new(),
                memory: ReplyMemory::new(options.memory),
                options: RefCell::new(options),
                generation: Cell::new(0),
                server_state,
                connections: Connections::new(Arc::clone(&connection_counters)),
                connection_counters,
                counters: Arc::default(),
                by_address: Arc::default(),
                audit: Audit::new(lane.audit.clone()),
                commons: lane.commons.clone(),
                pieces: Rc::default(),
                cpu_scheduler: CpuScheduler::default(),
            }
        });
        let answering = admin_replies::answer(Rc::downgrade(&me), Arc::clone(&me.server_state));
        let tasks = [lane_mailbox::take(Rc::downgrade(&me), port), answering];
        me.tasks.set(tasks).map_err(|_| ()).expect("it was empty");
        problem.map_or(Ok(me), Err)
    }

    pub(super) fn connection_table(&self) -> &ConnectionTable {
        &self.connection_table
    }

    pub(crate) fn of_trees(&self) -> &Tree {
        &self.tree
    }

    /// Returns the rules of now.
    pub(crate) fn options(&self) -> Arc<Options> {
        Arc::clone(&self.options.borrow())
    }

    pub(crate) fn connections(&self) -> &Rc<Connections> {
        &self.connections
    }

    /// Returns a connection's account of memory, and its claim to the server's rate.
    pub(crate) fn accounts(&self, peer: IpAddr) -> (Rc<Account>, Ticket) {
        (self.memory.account(peer, &self.connection_counters), self.commons.pacer.ticket())
    }

    /// Returns a tree of a session, as this lane serves it.
    pub(crate) fn tree(
        &self,
        connection: &Connection,
        channel: &Channel,
        id: u32,
    ) -> Result<Rc<LaneTree>, Status> {
        channel.tree(id, self.generation.get(), |connect| {
            let renewals = channel.session.renewals();
            let ctx = self.ctx(connection, channel, connect.id, &connect.apple)?;
            let kind = match &*connect.share {
                PIPES => TreeKind::Pipes,
                name => {
                    let share = self.tree.share(name).ok_or(Status::BAD_NETWORK_NAME)?;
                    let share =
                        connect.root.as_ref().map_or_else(|| share.clone(), |root| share.beneath(root));
                    TreeKind::Disk { share, ctx }
                }
            };
            let options = self.options();
            let section = options.shares.iter().find(|share| *share.name == *connect.share);
            let test_delay = section.and_then(|share| share.test_delay);
            Ok(LaneTree { connect, kind, generation: self.generation.get(), renewals, test_delay })
        })
    }

    /// Returns the session's user in a tree connect, by this connection.
    fn ctx(
        &self,
        connection: &Connection,
        channel: &Channel,
        tree: u32,
        apple: &Arc<Apple>,
    ) -> Result<RequestContext, Status> {
        let session = &channel.session;
        let principal = session.principal().ok_or(Status::USER_SESSION_DELETED)?;
        // A user that was removed or disabled since it signed in is unknown here.
        let principal = self.options().accounts.renewed(&principal).ok_or(Status::USER_SESSION_DELETED)?;
        let negotiated = connection.negotiated.get().ok_or(Status::BAD_NETWORK_NAME)?;
        Ok(RequestContext {
            caller: Caller::new(principal),
            session: session.id,
            tree,
            client: session.client,
            address: address_of(connection.peer),
            dialect: negotiated.dialect,
            posix: negotiated.posix,
            apple: Arc::clone(apple),
        })
    }

    /// Returns where a share begins for a client that connects to it now.
    ///
    /// # Errors
    /// `STATUS_BAD_NETWORK_NAME` where there is no such directory; `STATUS_ACCESS_DENIED` for a client that
    /// has none, as it is no user or its name cannot be a directory's, and for one that may not go there;
    /// those of a directory that is made.
    pub(crate) async fn root_of(
        &self,
        connection: &Connection,
        channel: &Channel,
        section: &ShareSection,
    ) -> Result<Option<Arc<Root>>, Status> {
        let Some(directory) = &section.directory else { return Ok(None) };
        let ctx = self.ctx(connection, channel, 0, &Arc::default())?;
        let path = directory.template.of(&ctx.caller.principal, lane::time::wall_clock());
        let path = path.map_err(|unfit| {
            let (share, user) = (&section.name, ctx.caller.principal.name());
            //@ cause: The share has a directory for each user (`directory` with `%U`), and the client that connects is no user, or has a name that no
            //@ directory can have.
            //@ remedy: Have the user sign in by name, or rename the user.
            tracing::warn!(
                share,
                user,
                "SMB share {share}: user {user} cannot connect, as {unfit}; sign in as a user whose name a directory can have \
                 [smb-no-directory]"
            );
            Status::ACCESS_DENIED
        })?;
        let share = self.tree.share(&section.name).ok_or(Status::BAD_NETWORK_NAME)?;
        let root_spec = RootSpec { path, varies: directory.template.varies(), makes: directory.create };
        share.enter(&ctx, &root_spec).await.map(Some)
    }

    /// Returns every open of the process.
    pub(crate) fn opens(&self) -> &Arc<Opens> {
        self.tree.opens()
    }

    /// Returns some share that a session uses, for what is of none in particular.
    pub(crate) fn any_share(&self, call: &Call<'_>) -> Result<Rc<LaneTree>, Status> {
        let channel = call.channel()?;
        let id = channel.session.disk_tree(PIPES).ok_or(Status::OBJECT_NAME_NOT_FOUND)?;
        self.tree(call.connection, channel, id)
    }
}

/// Shows the volumes as shares.
fn show(tree: &Tree, options: &Options, volumes: &LaneVolumes) -> Result<(), String> {
    for share in &options.shares {
        let volume = volumes.get(&share.volume);
        let volume = volume.ok_or_else(|| format!("the volume {} is not open", share.volume))?;
        let (accounts, sids) = (Arc::clone(&options.accounts), options.sids.clone());
        let hide = ShareOptions::patterns(&share.hide);
        let hide_attributes = share.hide_attributes.clone().into();
        let how = ShareOptions {
            accounts,
            sids,
            short_names: share.short_names,
            hide_unreadable: share.hide_unreadable,
            keep_inherited: share.keep_inherited,
            write_time_delay: share.write_time_delay,
            hide,
            hide_attributes,
            ..ShareOptions::default()
        };
        tree.add_share(&share.name, volume.clone(), how);
    }
    Ok(())
}

impl LaneService for LaneSmb {
    fn counters(&self) -> Vec<(&'static str, Arc<dyn CounterBlock>)> {
        vec![
            ("smb", Arc::clone(&self.counters) as _),
            ("smb", Arc::clone(&self.connection_counters) as _),
            ("smb", Arc::clone(self.tree.counters()) as _),
            ("smb", Arc::clone(&self.by_address) as _),
            ("smb", Arc::new(self.server_state.pipes.memory.shown(self.lane_mailbox.here())) as _),
            ("smb", Arc::new(ChannelsPerSession::new(&self.server_state, self.lane_mailbox.here())) as _),
        ]
    }

    fn listen(
        self: Rc<Self>,
        socket: LaneSocket,
        role: Role,
        router: Rc<dyn ConnectionRouter>,
    ) -> LaneFuture<io::Result<()>> {
        Box::pin(async move {
            let LaneSocket::Tcp(listener) = socket else {
                return Err(io::Error::other("SMB is served over TCP"));
            };
            let take = |stream| {
                if let Some(stream) = router.place(stream, role) {
                    Rc::clone(&self).take(stream, role);
                }
            };
            self.connections.accept(&listener, take).await
        })
    }

    fn take(self: Rc<Self>, stream: TcpStream, _: Role) {
        let max = self.options.borrow().connections_max;
        let Ok((stream, open)) = self.connections.admit(stream, max) else { return };
        // It only tunes: a connection without it works.
        let _ = stream.set_option(SocketOption::NoDelay(true));
        let client = client_of(stream.peer_addr().ip());
        lane::spawn_for(client, Connection::serve(self, stream, open)).detach();
    }

    fn prepare(self: Rc<Self>, site: &dyn Site, volumes: &LaneVolumes) -> Result<Switch, String> {
        let options = Arc::clone(site.expect::<SmbSite>().options());
        let volumes = volumes.clone();
        let is_open = |share: &&ShareSection| volumes.get(&share.volume).is_none();
        if let Some(missing) = options.shares.iter().find(is_open) {
            return Err(format!("the volume {} is not open", missing.volume));
        }
        Ok(Box::new(move || {
            let old = self.options();
            let remove_connection =
                |share: &&ShareSection| options.shares.iter().all(|new| new.name != share.name);
            old.shares.iter().filter(remove_connection).for_each(|share| self.tree.remove_share(&share.name));
            show(&self.tree, &options, &volumes).expect("each volume was looked for");
            *self.options.borrow_mut() = options;
            self.generation.update(|generation| generation + 1);
        }))
    }

    fn mark(&self, mark: u32) {
        self.connections.set_mark(mark);
    }

    fn dismiss(&self) {
        self.connections.drain().dismiss();
    }

    fn drain(self: Rc<Self>, deadline: Instant) -> LaneFuture<usize> {
        Box::pin(async move { self.connections.drain().ask(deadline).await })
    }

    fn restore_state(self: Rc<Self>) -> LaneFuture<()> {
        Box::pin(async move {
            let Some((page, guid)) = self.server_state.persisted_state.take_previous() else { return };
            match self.tree.restore_opens(&page, TAKE_UP_WITHIN).await {
                Ok(RestoredOpens { restored, lost }) => {
                    self.server_state.set_guid(guid);
                    tracing::info!(
                        restored,
                        lost,
                        "SMB: durable opens of the last server wait for their clients"
                    );
                }
                //@ cause: The file in which the last server kept durable opens is of another version of Linerate, or damaged.
                //@ remedy: None is needed: clients open their files again by themselves. Locks they held are gone.
                Err(DamagedPage) => tracing::error!(
                    "SMB: open files that the last server kept cannot be read; clients have to open them again [smb-opens-unusable]"
                ),
            }
        })
    }

    fn save_state(self: Rc<Self>) -> LaneFuture<()> {
        Box::pin(async move {
            let SavedOpens { page, kept: saved, left_out } = self.tree.save_opens(PUT_DOWN_WITHIN).await;
            if saved + left_out > 0 {
                tracing::info!(kept = saved, left_out, "SMB: durable opens are kept for the next server");
            }
            self.server_state.persisted_state.set_next(page, self.server_state.guid());
        })
    }

    fn flush_log(&self) {
        self.audit.flush();
    }
}

/// Time for restoring opens: clients that wait meanwhile have to be heard before they give up.
const TAKE_UP_WITHIN: Duration = Duration::from_secs(10);
/// Time for saving opens: less than the server waits for its lanes.
const PUT_DOWN_WITHIN: Duration = Duration::from_secs(3);
