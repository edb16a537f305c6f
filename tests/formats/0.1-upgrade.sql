BEGIN TRANSACTION;
CREATE TABLE blocked (
    campaign INTEGER NOT NULL,
    user TEXT NOT NULL,
    PRIMARY KEY (campaign, user)
) STRICT, WITHOUT ROWID;
INSERT INTO "blocked" VALUES(1,'blocked');
CREATE TABLE campaigns (
    no INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    version INTEGER NOT NULL,
    lifecycle INTEGER NOT NULL, -- 0 open, 1 paused, 2 closing, 3 closed
    touched INTEGER NOT NULL,
    paused_prizes TEXT NOT NULL, -- JSON list
    nonce BLOB NOT NULL,
    commitment TEXT NOT NULL,
    blocked_users INTEGER NOT NULL,
    users INTEGER NOT NULL,
    wins INTEGER NOT NULL,
    consolations INTEGER NOT NULL,
    nothings INTEGER NOT NULL
, due INTEGER) STRICT;
INSERT INTO "campaigns" VALUES(1,'kept',1,0,1,'[]',X'022D4B159E22293F882691DCD3B279558E96DE5B760DA86B7FE9CDFE7D4A27DB','f863cc94f5de2a793dccdb14093f5e8008f9b6d6acc4ca0a645e787e3b604af0',1,3,2,12,0,1796446800000000);
CREATE TABLE envelope_sums (
    currency TEXT PRIMARY KEY,
    envelopes INTEGER NOT NULL,
    open INTEGER NOT NULL,
    created_minor TEXT NOT NULL,
    grabbed_minor TEXT NOT NULL,
    waiting_minor TEXT NOT NULL,
    refunded_minor TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "envelope_sums" VALUES('CNY',1,1,'1000','164','836','0');
CREATE TABLE envelope_users (
    envelope INTEGER NOT NULL,
    user TEXT NOT NULL,
    PRIMARY KEY (envelope, user)
) STRICT, WITHOUT ROWID;
CREATE TABLE envelopes (
    no INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    currency TEXT NOT NULL,
    total_minor INTEGER NOT NULL,
    record TEXT NOT NULL, -- JSON, see src/store/rules/envelope/state.rs
    packets_grabbed INTEGER NOT NULL,
    grabbed_minor INTEGER NOT NULL,
    last_grab INTEGER,
    created_sequence INTEGER NOT NULL, -- ledger entries
    refund_sequence INTEGER,
    refund_due INTEGER, -- none once it is empty or refunded
    settled INTEGER -- since when it is; 0 once it is being removed
) STRICT;
INSERT INTO "envelopes" VALUES(1,'kept-envelope','CNY',1000,'{"envelope":{"id":"kept-envelope","sender":"plain","total_minor":1000,"currency":"CNY","packets":5,"split":"random","min_minor":1,"ttl_micros":86400000000},"digest":"197ccd354802ad1c9f7e2655bcf34d0c23e59d2b076c947d43a1403067e1a691","nonce":"0880d0bb6d644156a0fbb4c922d734c8c5363149e5342601f2ee961f39883f1d","commitment":"c6065c17d698de88ac1a32a4c5518a86a331590911d1522453e8b8d4a2fdfca8","created":1796443804694986,"start":1796443804694986,"expiry":1796530204694986,"filled":5,"filled_minor":1000}',1,164,1796443804812586,15,NULL,1796530204694986,NULL);
CREATE TABLE grabs (
    envelope INTEGER NOT NULL,
    user TEXT NOT NULL,
    packet INTEGER NOT NULL,
    amount_minor INTEGER NOT NULL,
    at INTEGER NOT NULL,
    sequence INTEGER NOT NULL, -- of the ledger entry
    PRIMARY KEY (envelope, user)
) STRICT, WITHOUT ROWID;
INSERT INTO "grabs" VALUES(1,'granted',1,164,1796443804812586,16);
CREATE TABLE ledger (
    sequence INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    campaign INTEGER NOT NULL,
    body TEXT NOT NULL -- JSON, see src/store/entry.rs
, envelope TEXT) STRICT;
INSERT INTO "ledger" VALUES(1,1796443800395864,1,'{"kind":"applied","version":1,"base_version":0,"definition_sha256":"56cac96d267c8c664dfe27a60ab0e9d6cff2952fb7372cdf95408958a62b97a2","commitment":"f863cc94f5de2a793dccdb14093f5e8008f9b6d6acc4ca0a645e787e3b604af0","stock_added":{"0":31,"1":3000},"author":{"request":"cli-1df48d620a555cab88ab939a9266b531","operator":"cli"}}',NULL);
INSERT INTO "ledger" VALUES(2,1796443802682965,1,'{"kind":"operated","operation":{"action":"grant","users":["granted"],"draws":3,"expires":253402214400000000},"author":{"request":"cli-093bee5b420f26af8f229bde61292e59","operator":"cli"},"users":1}',NULL);
INSERT INTO "ledger" VALUES(3,1796443802859362,1,'{"kind":"operated","operation":{"action":"block","users":["blocked"]},"author":{"request":"cli-9522116963d192b6a40980038f631e47","operator":"cli"},"users":1}',NULL);
INSERT INTO "ledger" VALUES(4,1796443803007343,1,'{"kind":"dealt","pool":1,"round":1,"chunk":0,"granted":{"1":25},"blanks":75}',NULL);
INSERT INTO "ledger" VALUES(5,1796443803033216,1,'{"kind":"draw","version":1,"user":"plain","request":"plain-1","funding":"free","results":[1],"counts":{"free_today":1,"paid_today":0,"draws":1,"bonus_used":0,"wins":0,"bonus_left":0}}',NULL);
INSERT INTO "ledger" VALUES(6,1796443803091651,1,'{"kind":"draw","version":1,"user":"granted","request":"granted-1","funding":"free","results":[1],"counts":{"free_today":1,"paid_today":0,"draws":1,"bonus_used":0,"wins":0,"bonus_left":3}}',NULL);
INSERT INTO "ledger" VALUES(7,1796443803240615,1,'{"kind":"draw","version":1,"user":"blocked","request":"blocked-1","funding":"free","results":[1],"counts":{"free_today":1,"paid_today":0,"draws":1,"bonus_used":0,"wins":0,"bonus_left":0}}',NULL);
INSERT INTO "ledger" VALUES(8,1796443803710866,1,'{"kind":"draw","version":1,"user":"plain","request":"plain-2","funding":"free","results":[1],"counts":{"free_today":2,"paid_today":0,"draws":2,"bonus_used":0,"wins":0,"bonus_left":0}}',NULL);
INSERT INTO "ledger" VALUES(9,1796443803885397,1,'{"kind":"draw","version":1,"user":"granted","request":"granted-2","funding":"free","results":[1],"counts":{"free_today":2,"paid_today":0,"draws":2,"bonus_used":0,"wins":0,"bonus_left":3}}',NULL);
INSERT INTO "ledger" VALUES(10,1796443803935081,1,'{"kind":"draw","version":1,"user":"blocked","request":"blocked-2","funding":"free","results":[1],"counts":{"free_today":2,"paid_today":0,"draws":2,"bonus_used":0,"wins":0,"bonus_left":0}}',NULL);
INSERT INTO "ledger" VALUES(11,1796443804149920,1,'{"kind":"draw","version":1,"user":"plain","request":"plain-3","funding":"free","results":[[1,1,1,4,0]],"counts":{"free_today":3,"paid_today":0,"draws":3,"bonus_used":0,"wins":1,"bonus_left":0}}',NULL);
INSERT INTO "ledger" VALUES(12,1796443804197524,1,'{"kind":"draw","version":1,"user":"granted","request":"granted-3","funding":"free","results":[1],"counts":{"free_today":3,"paid_today":0,"draws":3,"bonus_used":0,"wins":0,"bonus_left":3}}',NULL);
INSERT INTO "ledger" VALUES(13,1796443804375421,1,'{"kind":"draw","version":1,"user":"blocked","request":"blocked-3","funding":"free","results":[1],"counts":{"free_today":3,"paid_today":0,"draws":3,"bonus_used":0,"wins":0,"bonus_left":0}}',NULL);
INSERT INTO "ledger" VALUES(14,1796443804415458,1,'{"kind":"draw","version":1,"user":"plain","request":"plain-many","funding":"free","results":[1,1,[1,1,1,8,0],1,1],"counts":{"free_today":8,"paid_today":0,"draws":8,"bonus_used":0,"wins":2,"bonus_left":0}}',NULL);
INSERT INTO "ledger" VALUES(15,1796443804694986,0,'{"kind":"envelope_created","envelope":{"id":"kept-envelope","sender":"plain","total_minor":1000,"currency":"CNY","packets":5,"split":"random","min_minor":1,"ttl_micros":86400000000},"start":1796443804694986,"expiry":1796530204694986,"nonce":"0880d0bb6d644156a0fbb4c922d734c8c5363149e5342601f2ee961f39883f1d","commitment":"c6065c17d698de88ac1a32a4c5518a86a331590911d1522453e8b8d4a2fdfca8"}','kept-envelope');
INSERT INTO "ledger" VALUES(16,1796443804812586,0,'{"kind":"grab","user":"granted","packet":1,"amount_minor":164}','kept-envelope');
CREATE TABLE meta (
    key TEXT PRIMARY KEY, -- store_id, key_fingerprint, test_clock, forgotten, probed, min_reader
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "meta" VALUES('key_fingerprint','391a1643c6b34c71');
INSERT INTO "meta" VALUES('min_reader','4');
INSERT INTO "meta" VALUES('probed','1796443802214949');
INSERT INTO "meta" VALUES('store_id','d3498180811c2a14793a20b9eec27fb2');
INSERT INTO "meta" VALUES('test_clock','1');
CREATE TABLE operations (
    campaign INTEGER NOT NULL,
    request TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    PRIMARY KEY (campaign, request)
) STRICT, WITHOUT ROWID;
INSERT INTO "operations" VALUES(1,'cli-093bee5b420f26af8f229bde61292e59',2);
INSERT INTO "operations" VALUES(1,'cli-1df48d620a555cab88ab939a9266b531',1);
INSERT INTO "operations" VALUES(1,'cli-9522116963d192b6a40980038f631e47',3);
CREATE TABLE packets (
    envelope INTEGER NOT NULL,
    number INTEGER NOT NULL,
    amount_minor INTEGER NOT NULL,
    release INTEGER NOT NULL,
    PRIMARY KEY (envelope, number)
) STRICT, WITHOUT ROWID;
INSERT INTO "packets" VALUES(1,2,23,1796443804694986);
INSERT INTO "packets" VALUES(1,3,183,1796443804694986);
INSERT INTO "packets" VALUES(1,4,428,1796443804694986);
INSERT INTO "packets" VALUES(1,5,202,1796443804694986);
CREATE TABLE pools (
    campaign INTEGER NOT NULL,
    pool INTEGER NOT NULL,
    state TEXT NOT NULL, -- JSON, see src/store/rules/state.rs
    PRIMARY KEY (campaign, pool)
) STRICT, WITHOUT ROWID;
INSERT INTO "pools" VALUES(1,0,'{"schedule":{"horizon":1796446800000000,"oldest":null,"totals":{"revision":1,"from":1796443200000000,"remaining":{}},"carry":{"windows":0,"units":{}},"planned":[],"injected":{},"returned":{}}}');
INSERT INTO "pools" VALUES(1,1,'{"deck":{"round":1,"chunk":1,"dealt":100,"remaining":[],"short":null}}');
CREATE TABLE queues (
    campaign INTEGER NOT NULL,
    pool INTEGER NOT NULL,
    prize INTEGER NOT NULL,
    waiting INTEGER NOT NULL,
    PRIMARY KEY (campaign, pool, prize)
) STRICT, WITHOUT ROWID;
INSERT INTO "queues" VALUES(1,1,-1,66);
INSERT INTO "queues" VALUES(1,1,1,23);
CREATE TABLE removed_envelopes (
    digest BLOB PRIMARY KEY
) STRICT, WITHOUT ROWID;
CREATE TABLE stock (
    campaign INTEGER NOT NULL,
    prize INTEGER NOT NULL,
    given INTEGER NOT NULL,
    remaining INTEGER NOT NULL,
    won INTEGER NOT NULL,
    withdrawn INTEGER NOT NULL,
    returned INTEGER NOT NULL,
    PRIMARY KEY (campaign, prize)
) STRICT, WITHOUT ROWID;
INSERT INTO "stock" VALUES(1,0,31,31,0,0,0);
INSERT INTO "stock" VALUES(1,1,3000,2975,2,0,0);
CREATE TABLE units (
    campaign INTEGER NOT NULL,
    pool INTEGER NOT NULL,
    prize INTEGER NOT NULL,
    score INTEGER NOT NULL,
    window INTEGER NOT NULL, -- a window's start in seconds, or a deck's round
    number INTEGER NOT NULL,
    PRIMARY KEY (campaign, pool, prize, score, window, number)
) STRICT, WITHOUT ROWID;
INSERT INTO "units" VALUES(1,1,-1,13,1,12);
INSERT INTO "units" VALUES(1,1,-1,16,1,15);
INSERT INTO "units" VALUES(1,1,-1,17,1,16);
INSERT INTO "units" VALUES(1,1,-1,18,1,17);
INSERT INTO "units" VALUES(1,1,-1,19,1,18);
INSERT INTO "units" VALUES(1,1,-1,20,1,19);
INSERT INTO "units" VALUES(1,1,-1,21,1,20);
INSERT INTO "units" VALUES(1,1,-1,24,1,23);
INSERT INTO "units" VALUES(1,1,-1,26,1,25);
INSERT INTO "units" VALUES(1,1,-1,28,1,27);
INSERT INTO "units" VALUES(1,1,-1,29,1,28);
INSERT INTO "units" VALUES(1,1,-1,30,1,29);
INSERT INTO "units" VALUES(1,1,-1,34,1,33);
INSERT INTO "units" VALUES(1,1,-1,35,1,34);
INSERT INTO "units" VALUES(1,1,-1,36,1,35);
INSERT INTO "units" VALUES(1,1,-1,38,1,37);
INSERT INTO "units" VALUES(1,1,-1,39,1,38);
INSERT INTO "units" VALUES(1,1,-1,40,1,39);
INSERT INTO "units" VALUES(1,1,-1,41,1,40);
INSERT INTO "units" VALUES(1,1,-1,43,1,42);
INSERT INTO "units" VALUES(1,1,-1,45,1,44);
INSERT INTO "units" VALUES(1,1,-1,46,1,45);
INSERT INTO "units" VALUES(1,1,-1,47,1,46);
INSERT INTO "units" VALUES(1,1,-1,48,1,47);
INSERT INTO "units" VALUES(1,1,-1,49,1,48);
INSERT INTO "units" VALUES(1,1,-1,50,1,49);
INSERT INTO "units" VALUES(1,1,-1,52,1,51);
INSERT INTO "units" VALUES(1,1,-1,53,1,52);
INSERT INTO "units" VALUES(1,1,-1,54,1,53);
INSERT INTO "units" VALUES(1,1,-1,56,1,55);
INSERT INTO "units" VALUES(1,1,-1,58,1,57);
INSERT INTO "units" VALUES(1,1,-1,59,1,58);
INSERT INTO "units" VALUES(1,1,-1,60,1,59);
INSERT INTO "units" VALUES(1,1,-1,62,1,61);
INSERT INTO "units" VALUES(1,1,-1,63,1,62);
INSERT INTO "units" VALUES(1,1,-1,64,1,63);
INSERT INTO "units" VALUES(1,1,-1,65,1,64);
INSERT INTO "units" VALUES(1,1,-1,66,1,65);
INSERT INTO "units" VALUES(1,1,-1,67,1,66);
INSERT INTO "units" VALUES(1,1,-1,69,1,68);
INSERT INTO "units" VALUES(1,1,-1,70,1,69);
INSERT INTO "units" VALUES(1,1,-1,71,1,70);
INSERT INTO "units" VALUES(1,1,-1,72,1,71);
INSERT INTO "units" VALUES(1,1,-1,73,1,72);
INSERT INTO "units" VALUES(1,1,-1,74,1,73);
INSERT INTO "units" VALUES(1,1,-1,75,1,74);
INSERT INTO "units" VALUES(1,1,-1,76,1,75);
INSERT INTO "units" VALUES(1,1,-1,77,1,76);
INSERT INTO "units" VALUES(1,1,-1,79,1,78);
INSERT INTO "units" VALUES(1,1,-1,80,1,79);
INSERT INTO "units" VALUES(1,1,-1,81,1,80);
INSERT INTO "units" VALUES(1,1,-1,84,1,83);
INSERT INTO "units" VALUES(1,1,-1,85,1,84);
INSERT INTO "units" VALUES(1,1,-1,87,1,86);
INSERT INTO "units" VALUES(1,1,-1,88,1,87);
INSERT INTO "units" VALUES(1,1,-1,89,1,88);
INSERT INTO "units" VALUES(1,1,-1,90,1,89);
INSERT INTO "units" VALUES(1,1,-1,91,1,90);
INSERT INTO "units" VALUES(1,1,-1,93,1,92);
INSERT INTO "units" VALUES(1,1,-1,94,1,93);
INSERT INTO "units" VALUES(1,1,-1,95,1,94);
INSERT INTO "units" VALUES(1,1,-1,96,1,95);
INSERT INTO "units" VALUES(1,1,-1,97,1,96);
INSERT INTO "units" VALUES(1,1,-1,98,1,97);
INSERT INTO "units" VALUES(1,1,-1,99,1,98);
INSERT INTO "units" VALUES(1,1,-1,100,1,99);
INSERT INTO "units" VALUES(1,1,1,12,1,11);
INSERT INTO "units" VALUES(1,1,1,14,1,13);
INSERT INTO "units" VALUES(1,1,1,15,1,14);
INSERT INTO "units" VALUES(1,1,1,22,1,21);
INSERT INTO "units" VALUES(1,1,1,23,1,22);
INSERT INTO "units" VALUES(1,1,1,25,1,24);
INSERT INTO "units" VALUES(1,1,1,27,1,26);
INSERT INTO "units" VALUES(1,1,1,31,1,30);
INSERT INTO "units" VALUES(1,1,1,32,1,31);
INSERT INTO "units" VALUES(1,1,1,33,1,32);
INSERT INTO "units" VALUES(1,1,1,37,1,36);
INSERT INTO "units" VALUES(1,1,1,42,1,41);
INSERT INTO "units" VALUES(1,1,1,44,1,43);
INSERT INTO "units" VALUES(1,1,1,51,1,50);
INSERT INTO "units" VALUES(1,1,1,55,1,54);
INSERT INTO "units" VALUES(1,1,1,57,1,56);
INSERT INTO "units" VALUES(1,1,1,61,1,60);
INSERT INTO "units" VALUES(1,1,1,68,1,67);
INSERT INTO "units" VALUES(1,1,1,78,1,77);
INSERT INTO "units" VALUES(1,1,1,82,1,81);
INSERT INTO "units" VALUES(1,1,1,83,1,82);
INSERT INTO "units" VALUES(1,1,1,86,1,85);
INSERT INTO "units" VALUES(1,1,1,92,1,91);
CREATE TABLE users (
    campaign INTEGER NOT NULL,
    user TEXT NOT NULL,
    request TEXT NOT NULL,
    sequence INTEGER, -- of a remembered draw: its ledger entry, which has the answer; what follows is the record's
    day INTEGER,
    free_today INTEGER,
    paid_today INTEGER,
    draws INTEGER,
    bonus_used INTEGER,
    wins INTEGER,
    bonus TEXT, -- JSON
    PRIMARY KEY (campaign, user, request)
) STRICT, WITHOUT ROWID;
INSERT INTO "users" VALUES(1,'blocked','',NULL,20792,3,0,3,0,0,NULL);
INSERT INTO "users" VALUES(1,'blocked','blocked-1',7,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "users" VALUES(1,'blocked','blocked-2',10,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "users" VALUES(1,'blocked','blocked-3',13,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "users" VALUES(1,'granted','',NULL,20792,3,0,3,0,0,'[{"expires":253402214400000000,"left":3}]');
INSERT INTO "users" VALUES(1,'granted','granted-1',6,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "users" VALUES(1,'granted','granted-2',9,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "users" VALUES(1,'granted','granted-3',12,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "users" VALUES(1,'plain','',NULL,20792,8,0,8,0,2,NULL);
INSERT INTO "users" VALUES(1,'plain','plain-1',5,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "users" VALUES(1,'plain','plain-2',8,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "users" VALUES(1,'plain','plain-3',11,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "users" VALUES(1,'plain','plain-many',14,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE versions (
    campaign INTEGER NOT NULL,
    version INTEGER NOT NULL,
    at INTEGER NOT NULL,
    operator TEXT NOT NULL,
    reason TEXT NOT NULL,
    definition BLOB NOT NULL, -- tombola.v1.Campaign
    PRIMARY KEY (campaign, version)
) STRICT, WITHOUT ROWID;
INSERT INTO "versions" VALUES(1,1,1796443800395864,'cli','',X'0A046B6570741A0D417369612F5368616E6768616922060880BBB6D8062A060880F8D9D90632041814200A3A100A06706F696E74731206506F696E747342070A036D7567181F42080A0363757018B8174A250A04646179731A1D1A170A0532303A3030120532313A30301A070A036D75671001280130014A150A046465636B220D086412070A03637570101920025001');
CREATE TABLE window_wins (
    campaign INTEGER NOT NULL,
    pool INTEGER NOT NULL,
    window INTEGER NOT NULL, -- the window's start in seconds, as in units
    prize INTEGER NOT NULL,
    won INTEGER NOT NULL,
    PRIMARY KEY (campaign, pool, window, prize)
) STRICT, WITHOUT ROWID;
CREATE TABLE windows (
    campaign INTEGER NOT NULL,
    pool INTEGER NOT NULL,
    start INTEGER NOT NULL,
    finish INTEGER NOT NULL,
    is_open INTEGER NOT NULL, -- it has an open fill, or units that must be taken back
    record TEXT NOT NULL, -- JSON, see src/store/rules/state.rs
    PRIMARY KEY (campaign, pool, start)
) STRICT, WITHOUT ROWID;
CREATE INDEX windows_by_end ON windows (campaign, pool, finish);
CREATE INDEX open_windows ON windows (campaign, pool) WHERE is_open = 1;
CREATE INDEX envelopes_by_refund ON envelopes (refund_due) WHERE refund_due IS NOT NULL;
CREATE INDEX envelopes_by_settlement ON envelopes (settled) WHERE settled IS NOT NULL;
CREATE UNIQUE INDEX grabs_by_packet ON grabs (envelope, packet);
CREATE INDEX campaigns_by_due ON campaigns (due, id) WHERE due IS NOT NULL;
COMMIT;
PRAGMA application_id = 1416588642;
PRAGMA user_version = 4;
