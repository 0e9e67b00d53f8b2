SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE SCHEMA released;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE released.annotation (
    id bigint NOT NULL,
    key text NOT NULL,
    revision text NOT NULL,
    text text NOT NULL,
    noted_at text NOT NULL
);
CREATE TABLE released.baseline (
    id bigint NOT NULL,
    key text NOT NULL,
    name text NOT NULL,
    test_id bigint NOT NULL,
    machine_id bigint NOT NULL
);
CREATE TABLE released.comparison (
    run_id bigint NOT NULL,
    place bigint NOT NULL,
    metric_id bigint NOT NULL,
    value double precision,
    low double precision,
    high double precision,
    p_value double precision,
    baseline double precision,
    margin double precision,
    n bigint NOT NULL,
    warnings text NOT NULL,
    outcome text NOT NULL,
    scale text NOT NULL,
    against text NOT NULL,
    revision text NOT NULL,
    anchored boolean NOT NULL
);
CREATE TABLE released.estimate (
    run_id bigint NOT NULL,
    place bigint NOT NULL,
    metric_id bigint NOT NULL,
    value double precision,
    low double precision,
    high double precision,
    n bigint NOT NULL,
    warnings text NOT NULL
);
CREATE TABLE released.hwperf_schema (
    version_num character varying(32) NOT NULL
);
CREATE TABLE released.machine (
    id bigint NOT NULL,
    key text NOT NULL,
    cpu_model text NOT NULL,
    architecture text NOT NULL,
    system text NOT NULL,
    python text NOT NULL,
    record text NOT NULL,
    cores bigint NOT NULL,
    memory_gb bigint NOT NULL
);
CREATE TABLE released.metric (
    id bigint NOT NULL,
    key text NOT NULL,
    name text NOT NULL,
    statistic text NOT NULL,
    better text NOT NULL,
    source text NOT NULL,
    per text NOT NULL,
    method text NOT NULL,
    estimated boolean NOT NULL,
    confidence double precision
);
CREATE TABLE released.pair (
    run_id bigint NOT NULL,
    place bigint NOT NULL,
    number bigint NOT NULL,
    stage text NOT NULL,
    change double precision,
    baseline double precision,
    candidate double precision,
    preempted double precision
);
CREATE TABLE released.run (
    id bigint NOT NULL,
    baseline_id bigint NOT NULL,
    state text NOT NULL,
    started_at text NOT NULL,
    revision text NOT NULL,
    changed boolean NOT NULL,
    digest bytea NOT NULL,
    record bytea NOT NULL
);
CREATE TABLE released.test (
    id bigint NOT NULL,
    key text NOT NULL,
    name_key text NOT NULL,
    name text NOT NULL,
    label text NOT NULL
);
CREATE TABLE released.verdict (
    run_id bigint NOT NULL,
    place bigint NOT NULL,
    outcome text NOT NULL,
    reason text NOT NULL,
    record text NOT NULL,
    fails boolean NOT NULL
);
INSERT INTO released.annotation VALUES (1, '06ccd6bde8ceb81919d141650043b043', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'new runner', '2026-03-02T09:30:00+00:00');
INSERT INTO released.baseline VALUES (1, 'c0e951fb7b8f0ff45846e7adcd62eb09', 'main', 1, 1);
INSERT INTO released.baseline VALUES (2, '80c04c4dd7df1db55c7748b6fe8f79ad', 'main', 2, 1);
INSERT INTO released.baseline VALUES (3, 'd4913953e821cc6d7ae857d0bce5730a', 'main', 3, 1);
INSERT INTO released.baseline VALUES (4, '22fad37e134dee05e99b071809d31c6b', 'main', 4, 1);
INSERT INTO released.comparison VALUES (4, 4, 11, 0.048, 0.031, 0.065, 0.0002, 0.00602, 0.02, 12, '', 'regressed', 'relative', 'baseline main', '', false);
INSERT INTO released.comparison VALUES (4, 5, 12, 0.021, -0.04, 0.13, 0.21, 0.00774, 0.1, 12, '', 'inconclusive', 'relative', 'baseline main', '', false);
INSERT INTO released.comparison VALUES (5, 2, 11, -0.12, -0.15, -0.09, 0.0005, 4.77e-05, 0.02, 12, '', 'improved', 'relative', 'baseline main', '', false);
INSERT INTO released.comparison VALUES (5, 3, 13, 0, -0.003, 0.003, 1, 0.9667, 0.005, 150, '', 'equivalent', 'absolute', 'baseline main', '', false);
INSERT INTO released.comparison VALUES (5, 4, 14, NULL, NULL, NULL, NULL, 0.00027, 0.02, 0, '', 'not comparable', 'relative', 'baseline main', '', false);
INSERT INTO released.comparison VALUES (6, 0, 15, NULL, NULL, NULL, NULL, NULL, 0.02, 0, '', 'no baseline', 'relative', 'baseline main', '', false);
INSERT INTO released.estimate VALUES (1, 0, 1, 1, 0.98, 1.02, 412, '');
INSERT INTO released.estimate VALUES (2, 0, 1, 2, 1.96, 2.04, 412, '');
INSERT INTO released.estimate VALUES (3, 0, 1, 3, 2.94, 3.06, 412, '');
INSERT INTO released.estimate VALUES (4, 0, 1, 0.00631, 0.0062, 0.00645, 412, '');
INSERT INTO released.estimate VALUES (4, 1, 2, 0.0079, 0.0076, 0.00845, 412, '');
INSERT INTO released.estimate VALUES (4, 2, 3, 0.0098, 0.0091, NULL, 412, '{"value":0.0098,"low":0.0091,"high":null,"confidence":0.98,"n":412,"method":"order statistics","warnings":["p99 needs 459 calls for an upper bound at 98 %"]}');
INSERT INTO released.estimate VALUES (4, 3, 4, 161, 158, 164, 24, '');
INSERT INTO released.estimate VALUES (4, 4, 5, 0.9667, 0.9245, 0.9857, 150, '');
INSERT INTO released.estimate VALUES (4, 5, 6, 4200000, NULL, NULL, 3, '');
INSERT INTO released.estimate VALUES (4, 6, 7, 0.0064, 0.0063, 0.0066, 24, '');
INSERT INTO released.estimate VALUES (5, 0, 8, 4.3e-05, 4.21e-05, 4.4e-05, 24, '');
INSERT INTO released.estimate VALUES (5, 1, 9, 4.2e-05, 4.15e-05, 4.28e-05, 2100, '');
INSERT INTO released.estimate VALUES (5, 2, 5, 0.9667, 0.9245, 0.9857, 150, '');
INSERT INTO released.estimate VALUES (5, 3, 10, 0.00031, 0.00028, 0.00035, 30, '');
INSERT INTO released.estimate VALUES (6, 0, 1, 0.00118, 0.00117, 0.0012, 1, '');
INSERT INTO released.hwperf_schema VALUES ('1');
INSERT INTO released.machine VALUES (1, '1d8ae821f811b51f', 'AMD EPYC 7B13', 'x86_64', 'Linux 6.8, glibc 2.39', 'CPython 3.12.4', '{"cpu_model":"AMD EPYC 7B13","architecture":"x86_64","cores":4,"memory_gb":17,"system":"Linux 6.8, glibc 2.39","python":"CPython 3.12.4","libraries":{"numpy":"2.1.0","onnxruntime":"1.20.1","scikit-learn":"1.6.0"},"threads":{"OMP_NUM_THREADS":"1"}}', 4, 17);
INSERT INTO released.metric VALUES (1, '40bb9ae4ec87aafaf6b8ea384caa4f76', 'latency', 'p50', 'lower', 'perf_counter', 'call', 'order statistics', false, 0.98);
INSERT INTO released.metric VALUES (2, '6fcc3cc838cc79b47632c7f50c98ef51', 'latency', 'p95', 'lower', 'perf_counter', 'call', 'order statistics', false, 0.98);
INSERT INTO released.metric VALUES (3, 'c3b07614f170b80151f20911a4a4cb3c', 'latency', 'p99', 'lower', 'perf_counter', 'call', 'order statistics', false, 0.98);
INSERT INTO released.metric VALUES (4, '23b8408ecb742e953c104da77e7ed8a4', 'throughput', 'mean', 'higher', 'perf_counter', 'window', 'order statistics', false, 0.98);
INSERT INTO released.metric VALUES (5, 'cae5cb70354ed4cf5199b8f4e70dff3d', 'accuracy', 'mean', 'higher', 'labels', 'example', 'order statistics', false, 0.98);
INSERT INTO released.metric VALUES (6, 'd34db4c7c7bb93c94dffd37a02b6435d', 'memory', 'max', 'lower', '/proc/self/status VmHWM', 'fresh process', 'order statistics', false, 0.98);
INSERT INTO released.metric VALUES (7, '2c0a225be631d143003966dd8e7a744b', 'cpu_time', 'mean', 'lower', 'getrusage', 'window', 'order statistics', false, 0.98);
INSERT INTO released.metric VALUES (8, 'f58fe6be57aa0c36ed9db7e047223a1f', 'latency', 'mean', 'lower', 'perf_counter', 'block', 'order statistics', false, 0.98);
INSERT INTO released.metric VALUES (9, '2da3e69b463f21d8cd81e08fe54eecf9', 'latency', 'p50', 'lower', 'perf_counter', 'batch of 16 calls', 'order statistics', false, 0.98);
INSERT INTO released.metric VALUES (10, '2057cce3f9eecde5575d00bdd5a64942', 'energy', 'mean', 'lower', 'estimate:cpu-time', 'window', 'order statistics', true, 0.98);
INSERT INTO released.metric VALUES (11, '228485748a1631112dfaba5d9db79119', 'latency', 'p50', 'lower', 'perf_counter', 'pair', 'Walsh averages', false, 0.98);
INSERT INTO released.metric VALUES (12, 'aa06b6a8b46abe104abb6971bf66e710', 'latency', 'p95', 'lower', 'perf_counter', 'pair', 'Walsh averages', false, 0.98);
INSERT INTO released.metric VALUES (13, '8bbb4b24d179a630827e4b21988331e6', 'accuracy', 'mean', 'higher', 'labels', 'example', 'Walsh averages', false, 0.98);
INSERT INTO released.metric VALUES (14, 'd336d5770288699fd4921245c84ec581', 'energy', 'mean', 'lower', 'estimate:cpu-time', 'pair', '', false, 0);
INSERT INTO released.metric VALUES (15, '274ee49bcda2c705bbdb5c6528958b2b', 'latency', 'p50', 'lower', 'perf_counter', 'pair', '', false, 0);
INSERT INTO released.run VALUES (1, 1, 'accepted', '2026-03-02T09:30:00+00:00', '4f2c1e9', false, '\x039a080b8a3b1430a99c2c48086456eaa1bac0c86d580fe3c2e2313537f800b8', '\x789c6d53c18e9b3010fd1564a9a726d4902c9b70dbeeaed443d3aedaeda1aa22e49801ac1a1bd9663734e2df77c651aaa8ea85e0e1f9cd9bf72627e646c3ca130be0032be38fff40cf4a39e5d3612acb78925a78af1a058e2d981607d088c6572fc108a7ecf9d40bd92903442887b1ea6d1d7177bb87e4f1e9e77d72fb315b214c3884059061748865c74d51156bac4bebc0b3728d44d05b3755ed8195d92d76997c801ea19f95198f49916e1649abd5412679badae2cd610a9dc541d8fd537c4b566996a7c48928870289f7c4ccd80f13a2f2344b397eb4c61cd180a07ad291a5394fb33894faadc252837026d60b44cf0b163a07a28e4c5f774fd5971fbbeaf9d3b7c7bb87ef846233421cbc28afa2947593cb0c489dec8469a1666523b407e40fc205a82b4196e73c2f967cb5e4f933df962b5e72fe9ed39384887ed024fdd7092d094e49bc20a41c9d90137e7f117a3c4f7650c193888c67a474c09c4a06c7789f88ece824cd18a3f358c150552fc295aa579c569996baedf104aaed88d38c5acf7b0ac7d42ae068e77e22c8aef2ea4f34ae20a3ad402ee6914243e5035ad553320ee4c5916658e5ecca4616b52271806320d6cbc2f84ee43745b9adb386c4071054c57092777463343d088fcb830d4f78ae1536b948a310ac6d74dc43128f31a31d2258779966c11ad58eee5f6335da61a2af185050681055871b7e6517a98caee362a69ca67e65254fb79b05ebd0b058cde34c8daa910d2e5f71fe7596d366e37e9251d6d5e092bf9d2893eb04e6abd0507e53498b8b1aff7ee770a5d0fa3f39cefbf90d2f85396d');
INSERT INTO released.run VALUES (2, 1, 'accepted', '2026-03-02T09:30:00+00:00', '4f2c1e9', false, '\x7dfae6719b404196620b824b72c37ffa4d90d739623dccbf2f0ba156059cc27d', '\x789c6d53416edb3010fc8a40a0a73a2a253b4aac5b9a04e8a16e83363d148521d0146511a54881a412bb86ff9e591a2e8ca217595c0d676767d607e627cbea038b2a4456a79ff0819e8df63ae4e3beaed3491a1182eeb4f26cc68cd82803345e83545678ed4ea741c85e5b4584729c9ac1b50977b77ac81e9f7ede67371f8b3960c20316958c930796ed6eaba65aa02e9d5781d50b10a9c1f97db3ddb0bab841977d886a00f4b3b6d32eabf2db59b6357a23b3329f2f7173dcc7de611076ff94deb2795e94397102e52190780fcc4ec3b807aacc8b9ce3a3b3760703a21e484791973c2fd250fab78e5746096f53bd02fa3863b1f74ab489e9ebeaa9f9f263d53c7ffaf678f7f09d50ec0888572f3ae82465d195b250a44ef6c26e55cbea4e98a0c01f858faa6d04595ef2b2bae2f32b5e3ef3653de735e7ef393d4988184643d27f1d6049f45ae2829072f242eef1fd4598e934d946c740220a5e90d21139d54cedd27d2272939734638a2ea08250f520e285aa574cabed96baad71527adb13a79d8c39ae291cdbea88d14efd44947d13f49f645c45463b012e164061541322ac1a2819afe4d9916e9c97ecc24696b48238aa5d24d6f3c2845e94d755bd6c8b8ec44725a88a70b2777463b2831201cb8386079c5b8d2667691482739d497b48e21133ec10d1f9f33433d6e9ede4ff35d6c00e9b7c454051c320aa8ed7fcc22e52995c677599739afa152b9a2fab19eb6158aa2ed24c9d6ec1061ccf97b73386f91745499b8dfd24a39c6f95cffe76a24c2e13385e8406f95d231d1635fdfd4ee14a61cc7f723cae8f6f31183970');
INSERT INTO released.run VALUES (3, 1, 'held', '2026-03-02T09:30:00+00:00', '4f2c1e9', false, '\x3eb754e35114ccc0e2639994bb0895a2b117833ac30f599ed72eef04b51233a6', '\x789c6d53416edb3010fc8a40a0a73a2a25394aac5b9a04e8a16983363d144520d0146511a54881a412bb86ff9e591a2e8ca217595c0d676767d67be667cb9a3d8b2a44d6a49ff0819eadf63ae4d3ae69d2491a1182eeb5f26cc18c582b03345e83545678ed8ea751c8415b4584729adbd1750977f37097dd3ffebccdae3e161560c20316958cb307966dafebb65ea22e9d5781354b10a9d1f95dbb59b3a6b842975d886a04f4b3b6f336abf3eb45b6317a2db332af56b839ede2e03008bb7d4c6f599517654e9c40790824de3db3f338ed802af322e7f8e8acddc280a847d251e425cf8b3494feade38551c2db54af813e2c581cbc125d62fafaf0d87ef9f1d03e7dfa767f73f79d50ec0088572f3ae82465d997b250a44e0ec26e54c79a5e98a0c01f858faa6b05595ef2b2bee0d5052f9ff8aaa978c3f97b4e4f1222c6c990f45f7b5812bd96b820a49cbd903b7c7f11663e4eb6d63190888217a474424e0d53db749f88dcec25cd98a20ba820543d8a78a6ea15d36abba16ecf3829bd1988d3cec61c9e291cdbe988d18efd4494431bf49f645c4d463b012e164061541b22ac1a2919afe4c9917eaa4a7666234b5a411cd53612eb6961c220cacbba5975454fe2a312544538d93bba31db518980e541c33dce9d469393340ac1b9dea43d24f188197688e8fc699a05ebf566f6ff1a6b60874dbe22a0a8611055a74b7e6617a94caeb3a6ca394dfdca9a325f6167071896aa759aa9d71dd880e3f9ea7ac130ffb22869b3b19f6494f39df2d9df4e94c9790287b3d020bf6fa5c3a2a6bfdf315c298cf94f8e87e7c31b32ab3973');
INSERT INTO released.run VALUES (4, 2, 'kept', '2026-03-02T09:30:00+00:00', '4f2c1e9', false, '\x65fa5ddab615603394a69ffb3d549b531052fa564b41e6073a76e1f4d8651963', '\x789cd556516fdb3610fe2b84803dcd9125d9962dbd756d813e2c5bb0752b8ac010688a92b850a440528dddc0ff7d7794ed2a81dd665d1e363fc824753cdef7dd77473d04a65741fe10386e5d90fb3f3bc567218cb061b7cb733f63925a2b2ac1cdadbd939c1a5554dd2c59079340d20d97b017869671458dd0301b5bc19b96b246288e47b1ae2f5a5dfa3dafaedf90b7371f5f93e54ff10ccca80133c799eb0dd806db555aa4735867da701be47370c45b6d7645bd09f2780927eeace32d98fe2c54bf2569b89a905a8a0d234938cb6067b7738d0688c1eb1b3f22b3304e42f40956068245bf0f81eadb6e075649188711bcd44a6d811a275a8c230e93288c3d407127dc9587e6d753b0de4f02d7184e4befe9d7eb9be2973fae8bf7ef7e7bfbeacdef6815ecc1c4f04fc20a1fcabc4a58cc313ad65055f332c82b2a2d07ff8e1ac7cb826232922849afa2d95594bc8fb27c16e551f463844f0c84b69dc4d06f1f80126704830d94b1de50b683f79fa8ec07641be12c06f15ffb45f843ee3a6e203ebef588109aee0d43d6bdb02cac8000454bdd88a77be05fa81af1af61c645dd204ad54bb99f8c1819d432e2e3769ef883c3687266b43e465381dc1ad219cdb8b5e398a6b836b55c5653c895eb2df9b37df7e1fa1f07b9464dab523850c49026ea585358f1d9eb2d457d6a5a6221810bc90beb40612d0ada707614d2a1b84eea43a979c78e6f1d7a3dd6996d68b248f3ac8c2b44e338c555d034f90177f4aae5d442cd95b8892b6eea1d8eee84f2215051e231e0d40ecd02bd074a133c976e2427c31ec234d40c37399942614e7dd39876fa9e1b46bba98057f2cad04ee6d174d850f47f1161bfb8d9ec88d1da11ade40e0383b2dc708387c2a41455c50d57cc2772bdf74bc0c691432c32ad2be9fb0cb20c650ce9a44e9b9336824ad4bd795a3812f2a67cdd605205641257bb4534ca2b02f72a0a72504a94ce624cd1fd61964c8206f27b98cd173e0b9528315a5ccc5600061a589c600b834684bc6a5372434e47a2d0c69ad98f740738aae2c06e705429a3529e51dea30ab8002d5b5c86b6cc46c896e918d9ea7f802cbb8c0c633d21cbe223b2412bff1a169e4d14e7a525f345461083259536842ad277008c6c006649a823d90a0aef656880e2d77ddd74bd7bc20494b43a4f459cc2257760225eac703c1011a7739c9c652299bf607eefa1b1c0e9df8036bacf9e070c824dd3e529c75982723daa375b2d9617b0c58be8fbc09daea8a797d857719d6ea547a8e8f63ca82ff7d4806b50eb37953bfb3e44972fb8f337e35781e2a79eff847a7e02b17b8e1bebec51634d5f589c3544da5b5af3672873bdff1b5c398b65');
INSERT INTO released.run VALUES (5, 3, 'kept', '2026-03-02T09:30:00+00:00', '4f2c1e9', false, '\x3820271bd95a58e34885a693a569b7a2434f7075046068a02b891ec15a808b59', '\x789cad94516fd33010c7bf4a648927dae0386ddae46d6c93786030c17840d314b9cea5b1e6d891edb096aadf9db3a1558734a64df4c1b5afe7bbffefeeea1db1a326d58e78709e54f1cbbd0b6b2dad74e9b0adaa78128a3b275b09f6d668bda9db2167776442145f81c28bb8750234b7d2e0e9e882e69e8b4e6a0849c430d6bd69e285b3ab8be4f2fafb79b2789fe5e8c62dba79107eb4e84b36cba22e666817c68223d50c03416fecb65eaf48952d30ddd679e8d1f5a3d4e32629d2e524592bb912094bf3126f0e5bdf198423e7d77197e469c6d21013bd2c2a0d7177448ffdb0452f966629c51f83762c8a977dd091a58ca659a493f7d24f1570aba3bd40effd84f8ce026f62a4cf57d7f5a76f57f5cd872f9767175f8317d9a38b851fd2c92865d632914150273aaed7d090aae5ca01c6f7dc7a686a1edac0282ba6349f527643cb2aa715a56f69588310de0f2a48bfbd0bd5d18df4183b0a58712fbadac99f517911480dc714c449bd56503b8f5afb501a0be220e94f9b8e1c41740cec61e343d443c75cc7d9bca8ca266b830c0f3c58b13ac99b7063d43d7087ddc3843b3c3712931ca4852a18d3aa38087a540aeb3c80e5de58f7db801ead5c8fb1d9b79814bc9502e32bee418b6dccc8bd743e5a319546134ea6ecd121c8fcc1d5881b9a52fcccf2c0fe703cb26c423ab9ee8e8659446c6583c1e3ad723921580e16070dc72594cdd8066c72cceb30e303b61f8b19cb8f929d196db84f10a6ad85c1b9011b0a8c6b4556ca88fb1399876eef27cf020e73fa4f3ef6982f9bffc5c7964f016694fe4fc43072896993ac480457ca3d87cb85182d7f5143cba2581c714b363b612d97f3c513a0d9fc959cf149734742d8c43fdc735ca0c1ae5f38a67976dac5d0b2931ee6f327c0f257721d5454f80c4fe3f376407c90ba41198f08bd1d617fb7ff054dd7f203');
INSERT INTO released.run VALUES (6, 4, 'kept', '2026-03-02T09:30:00+00:00', '4f2c1e9', false, '\x0fa7cd1e4f8eff171d7648899f756c17dc3c268784c78c04ca8552cafa27a09f', '\x789c4d52c16edb300cfd1543c04e4b3cd94eddc4b7ae2db0c3b2055b77188ac25064da162a4b8624b7f182fcfb48751e7a912deaf1f1f19167e626c3aa330be003abe2c77fa2b30e700ae93857d5dbcd3e83511ed88a6971048d586d4d97100a635e82114e590ce36d10b2570688578e533dd82626dcecef92fbc3efdbe4fa7356204c3884059061728865a76d59971b8c4bebc0b36a8344305837d7dd9155d93556997d8001a15f95994e49996e5749a7d55126795aec30739c436fb11f767b887f499166794a9c8872289078cfcc4cc338232a4fb394e3a335e6843e0435908e2ccd799ac5a6d4b30a6b0dc299182f117d59b1d03b104d64fabe3fd4df7eedeb872f3fee6fee7e128a5d10e2e0457915a56cda5c6640ea642f4c070dab5aa13d207f102e40530b723ee779b9e6c59ae70f7c5715bce2fc23a793848861d424fdf189dc318d0ac81d051c45907dedd59fa8bca44eadc012cc2bd369a87d40ad0359e3402e92dab1c8d9bb3e4874248ed344d66562be17f95559ed9aac2519010445d19de403654c6600e1717a58f08cf7466191451ab9606dabe32298496bf47904278275fe2d80885675531cf6231685e094a4c512018c9c634511940f313a5e9115b88b6ac07752f922f4843f3ce53ccbb6d4f9eb72c365e955d7ffbbe6b1b95635481b137688462332da30dc13f2cbba065cf2bfa0c75aaf38777431fa8e5abd9d1ca533eca2ada5c5850147cee2593129b47ea76f99f2e5e9f217382e12f3');
INSERT INTO released.test VALUES (1, '9ef6c697d7cd38e8ec8c498f33800466', '682dcafe3f0eb3b22d7d4797f81fd017', 'tests/test_iris.py::test_classifier', '');
INSERT INTO released.test VALUES (2, '18dccc62655195fd00834699f8535260', '96d8cd442c7c00be5bc9cb484d632ccb', 'tests/test_iris.py::test_classifier[sklearn_fp32]', '');
INSERT INTO released.test VALUES (3, '2e9f0559706ad40f063fcf5fc6c9bac6', '29e480252540b4db281f2f9ce1ace89b', 'tests/test_iris.py::test_classifier[onnx_fp32]', '');
INSERT INTO released.test VALUES (4, '8d8d517db3ca8790df29b86873d1e095', '3c2e82204b57dd75b75853969118ebe5', 'tests/test_text.py::test_tokenise', 'long text');
INSERT INTO released.verdict VALUES (4, 0, 'failed', 'latency_p95_ms: failed', '{"subject":{"type":"Budget","keyword":"latency_p95_ms","metric":"latency","statistic":"p95","limit":0.005,"default":false},"outcome":"failed","reason":"latency_p95_ms: failed","cause":null,"decided_by":[],"fails":true}', true);
INSERT INTO released.verdict VALUES (4, 1, 'inconclusive', 'throughput_min_qps: inconclusive', '{"subject":{"type":"Budget","keyword":"throughput_min_qps","metric":"throughput","statistic":"mean","limit":160.0,"default":false},"outcome":"inconclusive","reason":"throughput_min_qps: inconclusive","cause":null,"decided_by":[],"fails":false}', false);
INSERT INTO released.verdict VALUES (4, 2, 'passed', 'memory_max_mb: passed', '{"subject":{"type":"Budget","keyword":"memory_max_mb","metric":"memory","statistic":"max","limit":10000000.0,"default":false},"outcome":"passed","reason":"memory_max_mb: passed","cause":null,"decided_by":[],"fails":false}', false);
INSERT INTO released.verdict VALUES (4, 3, 'unmeasured', 'no readable energy counter: /sys/class/powercap/intel-rapl:0/energy_uj is readable by root only', '{"subject":{"type":"Budget","keyword":"energy_budget_mj","metric":"energy","statistic":"mean","limit":0.002,"default":false},"outcome":"unmeasured","reason":"no readable energy counter: /sys/class/powercap/intel-rapl:0/energy_uj is readable by root only","cause":null,"decided_by":[],"fails":true}', true);
INSERT INTO released.verdict VALUES (4, 4, 'regressed', 'latency p50: regressed', '{"subject":{"type":"Comparison","metric":"latency","statistic":"p50","outcome":"regressed","change":{"value":0.048,"low":0.031,"high":0.065,"confidence":0.98,"n":12,"method":"Walsh averages","warnings":[]},"scale":"relative","margin":0.02,"p_value":0.0002,"pairs":12,"method":{"kind":"said","texts":{"text":"signed-rank, pairs of processes"},"numbers":{},"differences":[]},"detectable":0.011,"baseline":0.00602,"promise":null,"cause":null,"warnings":[],"interference":null,"moved":null},"outcome":"regressed","reason":"latency p50: regressed","cause":null,"decided_by":[],"fails":true}', true);
INSERT INTO released.verdict VALUES (4, 5, 'inconclusive', 'latency p95: inconclusive', '{"subject":{"type":"Comparison","metric":"latency","statistic":"p95","outcome":"inconclusive","change":{"value":0.021,"low":-0.04,"high":0.13,"confidence":0.98,"n":12,"method":"Walsh averages","warnings":[]},"scale":"relative","margin":0.1,"p_value":0.21,"pairs":12,"method":{"kind":"said","texts":{"text":"signed-rank, pairs of processes"},"numbers":{},"differences":[]},"detectable":0.14,"baseline":0.00774,"promise":null,"cause":null,"warnings":[],"interference":null,"moved":null},"outcome":"inconclusive","reason":"latency p95: inconclusive","cause":null,"decided_by":[],"fails":false}', false);
INSERT INTO released.verdict VALUES (5, 0, 'passed', 'latency_mean_ms: passed', '{"subject":{"type":"Budget","keyword":"latency_mean_ms","metric":"latency","statistic":"mean","limit":0.1,"default":false},"outcome":"passed","reason":"latency_mean_ms: passed","cause":null,"decided_by":[],"fails":false}', false);
INSERT INTO released.verdict VALUES (5, 1, 'passed', 'accuracy_min: passed', '{"subject":{"type":"Budget","keyword":"accuracy_min","metric":"accuracy","statistic":"mean","limit":0.85,"default":false},"outcome":"passed","reason":"accuracy_min: passed","cause":null,"decided_by":[],"fails":false}', false);
INSERT INTO released.verdict VALUES (5, 2, 'improved', 'latency p50: improved', '{"subject":{"type":"Comparison","metric":"latency","statistic":"p50","outcome":"improved","change":{"value":-0.12,"low":-0.15,"high":-0.09,"confidence":0.98,"n":12,"method":"Walsh averages","warnings":[]},"scale":"relative","margin":0.02,"p_value":0.0005,"pairs":12,"method":{"kind":"said","texts":{"text":"signed-rank, pairs of processes"},"numbers":{},"differences":[]},"detectable":0.01,"baseline":0.0000477,"promise":null,"cause":null,"warnings":[],"interference":null,"moved":null},"outcome":"improved","reason":"latency p50: improved","cause":null,"decided_by":[],"fails":false}', false);
INSERT INTO released.verdict VALUES (5, 3, 'equivalent', 'accuracy mean: equivalent', '{"subject":{"type":"Comparison","metric":"accuracy","statistic":"mean","outcome":"equivalent","change":{"value":0.0,"low":-0.003,"high":0.003,"confidence":0.98,"n":150,"method":"Walsh averages","warnings":[]},"scale":"absolute","margin":0.005,"p_value":1.0,"pairs":150,"method":{"kind":"mcnemar","texts":{},"numbers":{"examples":150.0},"differences":[]},"detectable":null,"baseline":0.9667,"promise":null,"cause":null,"warnings":[],"interference":null,"moved":null},"outcome":"equivalent","reason":"accuracy mean: equivalent","cause":null,"decided_by":[],"fails":false}', false);
INSERT INTO released.verdict VALUES (5, 4, 'not comparable', 'measured by estimate:cpu-time, the baseline by rapl:package-0+dram', '{"subject":{"type":"Comparison","metric":"energy","statistic":"mean","outcome":"not comparable","change":null,"scale":"relative","margin":0.02,"p_value":null,"pairs":0,"method":{"kind":"said","texts":{"text":"none"},"numbers":{},"differences":[]},"detectable":null,"baseline":0.00027,"promise":null,"cause":{"kind":"said","texts":{"text":"measured by estimate:cpu-time, the baseline by rapl:package-0+dram"},"numbers":{},"differences":[]},"warnings":[],"interference":null,"moved":null},"outcome":"not comparable","reason":"measured by estimate:cpu-time, the baseline by rapl:package-0+dram","cause":null,"decided_by":[],"fails":false}', false);
INSERT INTO released.verdict VALUES (6, 0, 'no baseline', 'the baseline ''main'' has no run of this test', '{"subject":{"type":"Comparison","metric":"latency","statistic":"p50","outcome":"no baseline","change":null,"scale":"relative","margin":0.02,"p_value":null,"pairs":0,"method":{"kind":"said","texts":{"text":"none"},"numbers":{},"differences":[]},"detectable":null,"baseline":null,"promise":null,"cause":{"kind":"said","texts":{"text":"the baseline ''main'' has no run of this test"},"numbers":{},"differences":[]},"warnings":[],"interference":null,"moved":null},"outcome":"no baseline","reason":"the baseline ''main'' has no run of this test","cause":null,"decided_by":[],"fails":false}', false);
ALTER TABLE ONLY released.annotation
    ADD CONSTRAINT annotation_key_key UNIQUE (key);
ALTER TABLE ONLY released.annotation
    ADD CONSTRAINT annotation_pkey PRIMARY KEY (id);
ALTER TABLE ONLY released.baseline
    ADD CONSTRAINT baseline_key_key UNIQUE (key);
ALTER TABLE ONLY released.baseline
    ADD CONSTRAINT baseline_pkey PRIMARY KEY (id);
ALTER TABLE ONLY released.comparison
    ADD CONSTRAINT comparison_pkey PRIMARY KEY (run_id, place);
ALTER TABLE ONLY released.estimate
    ADD CONSTRAINT estimate_pkey PRIMARY KEY (run_id, place);
ALTER TABLE ONLY released.hwperf_schema
    ADD CONSTRAINT hwperf_schema_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY released.machine
    ADD CONSTRAINT machine_key_key UNIQUE (key);
ALTER TABLE ONLY released.machine
    ADD CONSTRAINT machine_pkey PRIMARY KEY (id);
ALTER TABLE ONLY released.metric
    ADD CONSTRAINT metric_key_key UNIQUE (key);
ALTER TABLE ONLY released.metric
    ADD CONSTRAINT metric_pkey PRIMARY KEY (id);
ALTER TABLE ONLY released.pair
    ADD CONSTRAINT pair_pkey PRIMARY KEY (run_id, place, number);
ALTER TABLE ONLY released.run
    ADD CONSTRAINT run_digest_baseline_id_key UNIQUE (digest, baseline_id);
ALTER TABLE ONLY released.run
    ADD CONSTRAINT run_pkey PRIMARY KEY (id);
ALTER TABLE ONLY released.test
    ADD CONSTRAINT test_key_key UNIQUE (key);
ALTER TABLE ONLY released.test
    ADD CONSTRAINT test_pkey PRIMARY KEY (id);
ALTER TABLE ONLY released.verdict
    ADD CONSTRAINT verdict_pkey PRIMARY KEY (run_id, place);
CREATE INDEX baseline_by_name ON released.baseline USING btree (name);
CREATE INDEX baseline_of_machine ON released.baseline USING btree (machine_id);
CREATE INDEX baseline_of_test ON released.baseline USING btree (test_id, name);
CREATE INDEX run_of_baseline ON released.run USING btree (baseline_id, state, id);
CREATE INDEX test_by_name ON released.test USING btree (name_key);
ALTER TABLE ONLY released.baseline
    ADD CONSTRAINT baseline_machine_id_fkey FOREIGN KEY (machine_id) REFERENCES released.machine(id);
ALTER TABLE ONLY released.baseline
    ADD CONSTRAINT baseline_test_id_fkey FOREIGN KEY (test_id) REFERENCES released.test(id);
ALTER TABLE ONLY released.comparison
    ADD CONSTRAINT comparison_metric_id_fkey FOREIGN KEY (metric_id) REFERENCES released.metric(id);
ALTER TABLE ONLY released.comparison
    ADD CONSTRAINT comparison_run_id_fkey FOREIGN KEY (run_id) REFERENCES released.run(id) ON DELETE CASCADE;
ALTER TABLE ONLY released.estimate
    ADD CONSTRAINT estimate_metric_id_fkey FOREIGN KEY (metric_id) REFERENCES released.metric(id);
ALTER TABLE ONLY released.estimate
    ADD CONSTRAINT estimate_run_id_fkey FOREIGN KEY (run_id) REFERENCES released.run(id) ON DELETE CASCADE;
ALTER TABLE ONLY released.pair
    ADD CONSTRAINT pair_run_id_fkey FOREIGN KEY (run_id) REFERENCES released.run(id) ON DELETE CASCADE;
ALTER TABLE ONLY released.run
    ADD CONSTRAINT run_baseline_id_fkey FOREIGN KEY (baseline_id) REFERENCES released.baseline(id) ON DELETE CASCADE;
ALTER TABLE ONLY released.verdict
    ADD CONSTRAINT verdict_run_id_fkey FOREIGN KEY (run_id) REFERENCES released.run(id) ON DELETE CASCADE;
