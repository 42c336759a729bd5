"""Lesson 25: windows and sinks, in NumPy: the lines of its page in their order, and the numbers that they start from.

It runs as it is, prints what the page shows, and stops where a number is another. Made of lesson.md by script/docs --pages.
"""

from pathlib import Path

import numpy as np

given, mine = {}, {}   # steps by name: those given, and those computed here

def keep(path, array, among=mine):
    # norm1.output is also the variable norm1_output
    among[path] = globals()[path.replace(".", "_")] = array
    return array

def show(name, array, expected):
    """Prints a step, which has to be what the lesson's page shows."""
    array = np.asarray(array)
    print(f"{name}: {np.array2string(array, precision=4, suppress_small=True, separator=', ')}")
    assert array.shape == np.shape(expected), f"{name} has the shape {array.shape}, the page shows {np.shape(expected)}"
    assert np.allclose(array, expected, rtol=6e-4, atol=6e-5, equal_nan=True), f"{name} is not what the page shows: {expected}"

# ---- what is given

stored = np.load(Path(__file__).with_name("lesson.npz"))
for path in stored.files:
    array = stored[path]
    keep(path, array.astype(float) if array.dtype == np.float32 else array, given)
keep('ids', np.array([2, 19, 15, 24, 32, 1, 10, 40, 16, 32, 46, 16, 48, 1, 17, 32, 56, 24, 1, 18]), given)
keep('width', np.array([6]), given)
keep('kept', np.array([1]), given)
keep('window.token_embedding', given['all.token_embedding'], given)
keep('window.position_embedding.table', given['all.position_embedding.table'], given)
keep('window.layers.0.norm1.gain', given['all.layers.0.norm1.gain'], given)
keep('window.layers.0.norm1.bias', given['all.layers.0.norm1.bias'], given)
keep('window.layers.0.self_attn.query_weights', given['all.layers.0.self_attn.query_weights'], given)
keep('window.layers.0.self_attn.query_bias', given['all.layers.0.self_attn.query_bias'], given)
keep('window.layers.0.self_attn.key_weights', given['all.layers.0.self_attn.key_weights'], given)
keep('window.layers.0.self_attn.key_bias', given['all.layers.0.self_attn.key_bias'], given)
keep('window.layers.0.self_attn.value_weights', given['all.layers.0.self_attn.value_weights'], given)
keep('window.layers.0.self_attn.value_bias', given['all.layers.0.self_attn.value_bias'], given)
keep('window.layers.0.self_attn.output_weights', given['all.layers.0.self_attn.output_weights'], given)
keep('window.layers.0.self_attn.output_bias', given['all.layers.0.self_attn.output_bias'], given)
keep('window.layers.0.norm2.gain', given['all.layers.0.norm2.gain'], given)
keep('window.layers.0.norm2.bias', given['all.layers.0.norm2.bias'], given)
keep('window.layers.0.feed_forward.hidden_weights', given['all.layers.0.feed_forward.hidden_weights'], given)
keep('window.layers.0.feed_forward.hidden_bias', given['all.layers.0.feed_forward.hidden_bias'], given)
keep('window.layers.0.feed_forward.output_weights', given['all.layers.0.feed_forward.output_weights'], given)
keep('window.layers.0.feed_forward.output_bias', given['all.layers.0.feed_forward.output_bias'], given)
keep('window.layers.1.norm1.gain', given['all.layers.1.norm1.gain'], given)
keep('window.layers.1.norm1.bias', given['all.layers.1.norm1.bias'], given)
keep('window.layers.1.self_attn.query_weights', given['all.layers.1.self_attn.query_weights'], given)
keep('window.layers.1.self_attn.query_bias', given['all.layers.1.self_attn.query_bias'], given)
keep('window.layers.1.self_attn.key_weights', given['all.layers.1.self_attn.key_weights'], given)
keep('window.layers.1.self_attn.key_bias', given['all.layers.1.self_attn.key_bias'], given)
keep('window.layers.1.self_attn.value_weights', given['all.layers.1.self_attn.value_weights'], given)
keep('window.layers.1.self_attn.value_bias', given['all.layers.1.self_attn.value_bias'], given)
keep('window.layers.1.self_attn.output_weights', given['all.layers.1.self_attn.output_weights'], given)
keep('window.layers.1.self_attn.output_bias', given['all.layers.1.self_attn.output_bias'], given)
keep('window.layers.1.norm2.gain', given['all.layers.1.norm2.gain'], given)
keep('window.layers.1.norm2.bias', given['all.layers.1.norm2.bias'], given)
keep('window.layers.1.feed_forward.hidden_weights', given['all.layers.1.feed_forward.hidden_weights'], given)
keep('window.layers.1.feed_forward.hidden_bias', given['all.layers.1.feed_forward.hidden_bias'], given)
keep('window.layers.1.feed_forward.output_weights', given['all.layers.1.feed_forward.output_weights'], given)
keep('window.layers.1.feed_forward.output_bias', given['all.layers.1.feed_forward.output_bias'], given)
keep('window.norm.gain', given['all.norm.gain'], given)
keep('window.norm.bias', given['all.norm.bias'], given)
keep('with_first.token_embedding', given['all.token_embedding'], given)
keep('with_first.position_embedding.table', given['all.position_embedding.table'], given)
keep('with_first.layers.0.norm1.gain', given['all.layers.0.norm1.gain'], given)
keep('with_first.layers.0.norm1.bias', given['all.layers.0.norm1.bias'], given)
keep('with_first.layers.0.self_attn.query_weights', given['all.layers.0.self_attn.query_weights'], given)
keep('with_first.layers.0.self_attn.query_bias', given['all.layers.0.self_attn.query_bias'], given)
keep('with_first.layers.0.self_attn.key_weights', given['all.layers.0.self_attn.key_weights'], given)
keep('with_first.layers.0.self_attn.key_bias', given['all.layers.0.self_attn.key_bias'], given)
keep('with_first.layers.0.self_attn.value_weights', given['all.layers.0.self_attn.value_weights'], given)
keep('with_first.layers.0.self_attn.value_bias', given['all.layers.0.self_attn.value_bias'], given)
keep('with_first.layers.0.self_attn.output_weights', given['all.layers.0.self_attn.output_weights'], given)
keep('with_first.layers.0.self_attn.output_bias', given['all.layers.0.self_attn.output_bias'], given)
keep('with_first.layers.0.norm2.gain', given['all.layers.0.norm2.gain'], given)
keep('with_first.layers.0.norm2.bias', given['all.layers.0.norm2.bias'], given)
keep('with_first.layers.0.feed_forward.hidden_weights', given['all.layers.0.feed_forward.hidden_weights'], given)
keep('with_first.layers.0.feed_forward.hidden_bias', given['all.layers.0.feed_forward.hidden_bias'], given)
keep('with_first.layers.0.feed_forward.output_weights', given['all.layers.0.feed_forward.output_weights'], given)
keep('with_first.layers.0.feed_forward.output_bias', given['all.layers.0.feed_forward.output_bias'], given)
keep('with_first.layers.1.norm1.gain', given['all.layers.1.norm1.gain'], given)
keep('with_first.layers.1.norm1.bias', given['all.layers.1.norm1.bias'], given)
keep('with_first.layers.1.self_attn.query_weights', given['all.layers.1.self_attn.query_weights'], given)
keep('with_first.layers.1.self_attn.query_bias', given['all.layers.1.self_attn.query_bias'], given)
keep('with_first.layers.1.self_attn.key_weights', given['all.layers.1.self_attn.key_weights'], given)
keep('with_first.layers.1.self_attn.key_bias', given['all.layers.1.self_attn.key_bias'], given)
keep('with_first.layers.1.self_attn.value_weights', given['all.layers.1.self_attn.value_weights'], given)
keep('with_first.layers.1.self_attn.value_bias', given['all.layers.1.self_attn.value_bias'], given)
keep('with_first.layers.1.self_attn.output_weights', given['all.layers.1.self_attn.output_weights'], given)
keep('with_first.layers.1.self_attn.output_bias', given['all.layers.1.self_attn.output_bias'], given)
keep('with_first.layers.1.norm2.gain', given['all.layers.1.norm2.gain'], given)
keep('with_first.layers.1.norm2.bias', given['all.layers.1.norm2.bias'], given)
keep('with_first.layers.1.feed_forward.hidden_weights', given['all.layers.1.feed_forward.hidden_weights'], given)
keep('with_first.layers.1.feed_forward.hidden_bias', given['all.layers.1.feed_forward.hidden_bias'], given)
keep('with_first.layers.1.feed_forward.output_weights', given['all.layers.1.feed_forward.output_weights'], given)
keep('with_first.layers.1.feed_forward.output_bias', given['all.layers.1.feed_forward.output_bias'], given)
keep('with_first.norm.gain', given['all.norm.gain'], given)
keep('with_first.norm.bias', given['all.norm.bias'], given)
keep('echo_ids', np.array([0, 19, 21, 18, 25, 20, 28, 20, 12, 3, 23, 27, 23, 27, 23, 26]), given)
keep('echo.all.layers.0.norm1.gain', np.array([
    1.4685992002487183, 1.2339694499969482, 1.162395715713501, 1.1379168033599854, 1.249439001083374,
    1.1899677515029907, 1.3163572549819946, 1.1805415153503418, 1.1624208688735962, 1.0938761234283447,
    1.3790677785873413, 1.5255372524261475, 1.2495874166488647, 1.3068792819976807, 1.2055907249450684,
    1.091064453125,
], float), given)
keep('echo.all.layers.0.norm1.bias', np.array([
    -0.17768611013889313, -0.16647779941558838, -0.1460055559873581, -0.08477909862995148,
    -0.11661498248577118, 0.2731403410434723, -0.2301119714975357, 0.22936522960662842,
    -0.0020566415041685104, -0.323492169380188, 0.03319237381219864, -0.04712754115462303,
    -0.1386299431324005, 0.2096605747938156, 0.4159684181213379, 0.0885043814778328,
], float), given)
keep('echo.all.layers.0.self_attn.query_bias', np.array([
    0.3017618656158447, 0.731174111366272, 0.26678213477134705, 0.18172185122966766,
    -0.06776204705238342, -0.24151510000228882, -0.8033096194267273, -0.13504548370838165,
    0.5217429399490356, 0.012763543985784054, -0.04522133991122246, -0.34473493695259094,
    0.561876118183136, 0.695557177066803, -0.35442253947257996, -0.9304028153419495,
], float), given)
keep('echo.all.layers.0.self_attn.key_bias', np.array([
    0.010526204481720924, -0.0019037009915336967, 0.011566738598048687, 0.006840659771114588,
    -0.01287796813994646, -0.003875946393236518, -0.009126308374106884, -0.0009181799250654876,
    0.01524546928703785, 0.013341786339879036, 0.0008996835094876587, 0.018002325668931007,
    0.011011416092514992, 0.013161711394786835, 0.004011163953691721, -0.02236618846654892,
], float), given)
keep('echo.all.layers.0.self_attn.value_bias', np.array([
    0.1692919284105301, 0.00014873701729811728, -0.11262689530849457, 0.17101432383060455,
    0.14286978542804718, 0.16252438724040985, 0.03593580052256584, 0.022681288421154022,
    0.02711038663983345, 0.20498301088809967, -0.0006618560873903334, -0.039311483502388,
    0.0006023303722031415, 0.019719168543815613, -0.0342487171292305, -0.02857692539691925,
], float), given)
keep('echo.all.layers.0.self_attn.output_bias', np.array([
    -0.13068559765815735, -0.021540092304348946, -0.06178326532244682, 0.16556806862354279,
    0.0021386200096458197, -0.06933558732271194, -0.004691119305789471, -0.10266859829425812,
    -0.12617765367031097, 0.04056566208600998, 0.09974358975887299, 0.08303121477365494,
    0.02205216884613037, 0.05266041308641434, -0.09604385495185852, 0.1536494642496109,
], float), given)
keep('echo.all.layers.0.norm2.gain', np.array([
    1.5986621379852295, 1.4515533447265625, 1.7190018892288208, 1.9608618021011353, 1.5521578788757324,
    1.7254502773284912, 1.4012175798416138, 1.3449569940567017, 1.646208643913269, 1.5977469682693481,
    1.5672764778137207, 1.1749500036239624, 1.2973887920379639, 1.2631804943084717, 1.7144614458084106,
    1.3895299434661865,
], float), given)
keep('echo.all.layers.0.norm2.bias', np.array([
    -0.04038705304265022, 0.2764219641685486, -0.1136801615357399, 0.22297801077365875,
    -0.08326465636491776, 0.15189290046691895, 0.0697760060429573, 0.020207980647683144,
    -0.14329323172569275, -0.05393288657069206, 0.03351462632417679, 0.11131786555051804,
    -0.09711572527885437, -0.32567834854125977, -0.06405258178710938, -0.08772668242454529,
], float), given)
keep('echo.all.layers.0.feed_forward.output_bias', np.array([
    0.06575459241867065, 0.16630466282367706, -0.0650184229016304, -0.18081028759479523,
    -0.35670843720436096, -0.008288019336760044, -0.06559815257787704, 0.06733841449022293,
    0.011405942030251026, -0.06408288329839706, 0.08980667591094971, 0.2667120397090912,
    -0.054906297475099564, 0.13695114850997925, -0.17422160506248474, -0.03126678615808487,
], float), given)
keep('echo.all.norm.gain', np.array([
    2.0942909717559814, 1.926837682723999, 1.6673446893692017, 2.1589765548706055, 1.60415518283844,
    1.9113715887069702, 2.079967737197876, 2.1121132373809814, 1.993543028831482, 1.8044822216033936,
    2.026815891265869, 1.7570381164550781, 1.8161534070968628, 1.4328608512878418, 1.753534197807312,
    1.7769640684127808,
], float), given)
keep('echo.all.norm.bias', np.array([
    0.13276197016239166, 0.043113935738801956, 0.08150272816419601, 0.068874292075634,
    -0.04531222954392433, 0.16963279247283936, -0.34688708186149597, -0.1631293147802353,
    -0.011757122352719307, -0.16417276859283447, -0.2865481376647949, -0.011860642582178116,
    -0.14336492121219635, -0.3848576545715332, -0.5203410983085632, 0.16781815886497498,
], float), given)
keep('echo.window.token_embedding', given['echo.all.token_embedding'], given)
keep('echo.window.position_embedding.table', given['echo.all.position_embedding.table'], given)
keep('echo.window.layers.0.norm1.gain', given['echo.all.layers.0.norm1.gain'], given)
keep('echo.window.layers.0.norm1.bias', given['echo.all.layers.0.norm1.bias'], given)
keep('echo.window.layers.0.self_attn.query_weights', given['echo.all.layers.0.self_attn.query_weights'], given)
keep('echo.window.layers.0.self_attn.query_bias', given['echo.all.layers.0.self_attn.query_bias'], given)
keep('echo.window.layers.0.self_attn.key_weights', given['echo.all.layers.0.self_attn.key_weights'], given)
keep('echo.window.layers.0.self_attn.key_bias', given['echo.all.layers.0.self_attn.key_bias'], given)
keep('echo.window.layers.0.self_attn.value_weights', given['echo.all.layers.0.self_attn.value_weights'], given)
keep('echo.window.layers.0.self_attn.value_bias', given['echo.all.layers.0.self_attn.value_bias'], given)
keep('echo.window.layers.0.self_attn.output_weights', given['echo.all.layers.0.self_attn.output_weights'], given)
keep('echo.window.layers.0.self_attn.output_bias', given['echo.all.layers.0.self_attn.output_bias'], given)
keep('echo.window.layers.0.norm2.gain', given['echo.all.layers.0.norm2.gain'], given)
keep('echo.window.layers.0.norm2.bias', given['echo.all.layers.0.norm2.bias'], given)
keep('echo.window.layers.0.feed_forward.hidden_weights', given['echo.all.layers.0.feed_forward.hidden_weights'], given)
keep('echo.window.layers.0.feed_forward.hidden_bias', given['echo.all.layers.0.feed_forward.hidden_bias'], given)
keep('echo.window.layers.0.feed_forward.output_weights', given['echo.all.layers.0.feed_forward.output_weights'], given)
keep('echo.window.layers.0.feed_forward.output_bias', given['echo.all.layers.0.feed_forward.output_bias'], given)
keep('echo.window.norm.gain', given['echo.all.norm.gain'], given)
keep('echo.window.norm.bias', given['echo.all.norm.bias'], given)
keep('echo.window.output_weights', given['echo.all.output_weights'], given)
keep('echo.with_first.token_embedding', given['echo.all.token_embedding'], given)
keep('echo.with_first.position_embedding.table', given['echo.all.position_embedding.table'], given)
keep('echo.with_first.layers.0.norm1.gain', given['echo.all.layers.0.norm1.gain'], given)
keep('echo.with_first.layers.0.norm1.bias', given['echo.all.layers.0.norm1.bias'], given)
keep('echo.with_first.layers.0.self_attn.query_weights', given['echo.all.layers.0.self_attn.query_weights'], given)
keep('echo.with_first.layers.0.self_attn.query_bias', given['echo.all.layers.0.self_attn.query_bias'], given)
keep('echo.with_first.layers.0.self_attn.key_weights', given['echo.all.layers.0.self_attn.key_weights'], given)
keep('echo.with_first.layers.0.self_attn.key_bias', given['echo.all.layers.0.self_attn.key_bias'], given)
keep('echo.with_first.layers.0.self_attn.value_weights', given['echo.all.layers.0.self_attn.value_weights'], given)
keep('echo.with_first.layers.0.self_attn.value_bias', given['echo.all.layers.0.self_attn.value_bias'], given)
keep('echo.with_first.layers.0.self_attn.output_weights', given['echo.all.layers.0.self_attn.output_weights'], given)
keep('echo.with_first.layers.0.self_attn.output_bias', given['echo.all.layers.0.self_attn.output_bias'], given)
keep('echo.with_first.layers.0.norm2.gain', given['echo.all.layers.0.norm2.gain'], given)
keep('echo.with_first.layers.0.norm2.bias', given['echo.all.layers.0.norm2.bias'], given)
keep('echo.with_first.layers.0.feed_forward.hidden_weights', given['echo.all.layers.0.feed_forward.hidden_weights'], given)
keep('echo.with_first.layers.0.feed_forward.hidden_bias', given['echo.all.layers.0.feed_forward.hidden_bias'], given)
keep('echo.with_first.layers.0.feed_forward.output_weights', given['echo.all.layers.0.feed_forward.output_weights'], given)
keep('echo.with_first.layers.0.feed_forward.output_bias', given['echo.all.layers.0.feed_forward.output_bias'], given)
keep('echo.with_first.norm.gain', given['echo.all.norm.gain'], given)
keep('echo.with_first.norm.bias', given['echo.all.norm.bias'], given)
keep('echo.with_first.output_weights', given['echo.all.output_weights'], given)
keep('echo.sink.layers.0.norm1.gain', np.array([
    1.2712212800979614, 1.1233853101730347, 1.0728529691696167, 1.0825380086898804, 1.2960174083709717,
    1.3142495155334473, 1.3125429153442383, 1.1849535703659058, 1.0438257455825806, 1.2544304132461548,
    1.3671337366104126, 1.4623862504959106, 1.222257375717163, 1.3508789539337158, 1.178681492805481,
    1.0263630151748657,
], float), given)
keep('echo.sink.layers.0.norm1.bias', np.array([
    -0.04129146784543991, -0.3577966094017029, -0.20293988287448883, -0.24173583090305328,
    0.1739407181739807, -0.12254569679498672, -0.07047823071479797, 0.6079930067062378,
    0.30030253529548645, -0.3638438284397125, 0.19188125431537628, 0.07203370332717896,
    -0.16284845769405365, 0.11647246778011322, 0.0894254818558693, -0.007591616827994585,
], float), given)
keep('echo.sink.layers.0.self_attn.query_bias', np.array([
    0.016325736418366432, 0.49528443813323975, 0.10789798200130463, 0.5817134976387024,
    0.001182126929052174, 0.23548680543899536, -0.5203336477279663, -0.3385620415210724,
    0.39781537652015686, -0.07405433058738708, -0.222958505153656, -0.3495497703552246,
    0.7660706639289856, 1.4039430618286133, -0.4477314352989197, -0.5671007037162781,
], float), given)
keep('echo.sink.layers.0.self_attn.key_bias', np.array([
    0.7799105644226074, -0.7599083781242371, 1.206619143486023, -1.5682744979858398, -1.2823868989944458,
    -1.986060380935669, -0.3700787127017975, -0.6326600909233093, 0.869236946105957, 1.3722909688949585,
    1.0879201889038086, 1.7332942485809326, -1.304648995399475, -2.166461944580078, 1.2197068929672241,
    -1.1619853973388672,
], float), given)
keep('echo.sink.layers.0.self_attn.value_bias', np.array([
    0.0158025361597538, -0.014937547966837883, -0.017011001706123352, 0.07113433629274368,
    0.07772060483694077, 0.08117082715034485, 0.2154267579317093, -0.06509176641702652,
    0.08836139738559723, 0.19915440678596497, 0.0015413719229400158, -0.05748717114329338,
    0.007463638670742512, -0.03279729560017586, -0.13712596893310547, 0.025664998218417168,
], float), given)
keep('echo.sink.layers.0.self_attn.sinks', np.array([1.698696494102478], float), given)
keep('echo.sink.layers.0.self_attn.output_bias', np.array([
    -0.10171471536159515, 0.07293278723955154, 0.009433654136955738, 0.17268683016300201,
    -0.015717728063464165, -0.1613195389509201, -0.07465998828411102, -0.15284104645252228,
    -0.07281031459569931, 0.0038549492601305246, -0.0312531553208828, 0.10894839465618134,
    0.06585843861103058, 0.1779709905385971, -0.1254805475473404, 0.16734951734542847,
], float), given)
keep('echo.sink.layers.0.norm2.gain', np.array([
    1.678350567817688, 1.4982115030288696, 1.5941544771194458, 1.8196563720703125, 1.4756066799163818,
    1.708570957183838, 1.458808183670044, 1.4325286149978638, 1.5587762594223022, 1.517322063446045,
    1.5436598062515259, 1.166609525680542, 1.3068585395812988, 1.250317096710205, 1.7392889261245728,
    1.4015040397644043,
], float), given)
keep('echo.sink.layers.0.norm2.bias', np.array([
    -0.13258858025074005, 0.33060553669929504, -0.1010904461145401, 0.279666543006897,
    -0.2701314091682434, 0.1224721297621727, -0.0521017424762249, -0.07289739698171616,
    -0.11713717877864838, -0.12506714463233948, 0.0386054590344429, 0.21970245242118835,
    0.041386447846889496, -0.1978786587715149, 0.03166841343045235, -0.10581529885530472,
], float), given)
keep('echo.sink.layers.0.feed_forward.output_bias', np.array([
    0.059698812663555145, 0.17702032625675201, -0.09628983587026596, -0.0975952073931694,
    -0.18856661021709442, -0.0019114338792860508, -0.09717778116464615, 0.0782330185174942,
    -0.013552120886743069, -0.11508375406265259, 0.05249932408332825, 0.2586938142776489,
    -0.05376646667718887, 0.11057690531015396, -0.25503861904144287, 0.008233771659433842,
], float), given)
keep('echo.sink.norm.gain', np.array([
    2.109236001968384, 1.9439502954483032, 1.7397470474243164, 2.2139577865600586, 1.6249160766601562,
    1.8911343812942505, 2.089829921722412, 1.955077052116394, 2.076367139816284, 1.773465871810913,
    2.1115305423736572, 1.6938822269439697, 1.7889984846115112, 1.5470342636108398, 1.779364824295044,
    1.7798429727554321,
], float), given)
keep('echo.sink.norm.bias', np.array([
    0.08779942989349365, 0.12177064269781113, 0.10331769287586212, 0.18862506747245789,
    -0.10878527164459229, -0.017329558730125427, -0.2878038287162781, -0.20382770895957947,
    0.062226515263319016, -0.20255300402641296, -0.229525625705719, -0.07343803346157074,
    -0.21434657275676727, -0.5883551239967346, -0.6395121812820435, 0.13869960606098175,
], float), given)
keep('echo.sink_in_window.token_embedding', given['echo.sink.token_embedding'], given)
keep('echo.sink_in_window.position_embedding.table', given['echo.sink.position_embedding.table'], given)
keep('echo.sink_in_window.layers.0.norm1.gain', given['echo.sink.layers.0.norm1.gain'], given)
keep('echo.sink_in_window.layers.0.norm1.bias', given['echo.sink.layers.0.norm1.bias'], given)
keep('echo.sink_in_window.layers.0.self_attn.query_weights', given['echo.sink.layers.0.self_attn.query_weights'], given)
keep('echo.sink_in_window.layers.0.self_attn.query_bias', given['echo.sink.layers.0.self_attn.query_bias'], given)
keep('echo.sink_in_window.layers.0.self_attn.key_weights', given['echo.sink.layers.0.self_attn.key_weights'], given)
keep('echo.sink_in_window.layers.0.self_attn.key_bias', given['echo.sink.layers.0.self_attn.key_bias'], given)
keep('echo.sink_in_window.layers.0.self_attn.value_weights', given['echo.sink.layers.0.self_attn.value_weights'], given)
keep('echo.sink_in_window.layers.0.self_attn.value_bias', given['echo.sink.layers.0.self_attn.value_bias'], given)
keep('echo.sink_in_window.layers.0.self_attn.sinks', np.array([1.698696494102478], float), given)
keep('echo.sink_in_window.layers.0.self_attn.output_weights', given['echo.sink.layers.0.self_attn.output_weights'], given)
keep('echo.sink_in_window.layers.0.self_attn.output_bias', given['echo.sink.layers.0.self_attn.output_bias'], given)
keep('echo.sink_in_window.layers.0.norm2.gain', given['echo.sink.layers.0.norm2.gain'], given)
keep('echo.sink_in_window.layers.0.norm2.bias', given['echo.sink.layers.0.norm2.bias'], given)
keep('echo.sink_in_window.layers.0.feed_forward.hidden_weights', given['echo.sink.layers.0.feed_forward.hidden_weights'], given)
keep('echo.sink_in_window.layers.0.feed_forward.hidden_bias', given['echo.sink.layers.0.feed_forward.hidden_bias'], given)
keep('echo.sink_in_window.layers.0.feed_forward.output_weights', given['echo.sink.layers.0.feed_forward.output_weights'], given)
keep('echo.sink_in_window.layers.0.feed_forward.output_bias', given['echo.sink.layers.0.feed_forward.output_bias'], given)
keep('echo.sink_in_window.norm.gain', given['echo.sink.norm.gain'], given)
keep('echo.sink_in_window.norm.bias', given['echo.sink.norm.bias'], given)
keep('echo.sink_in_window.output_weights', given['echo.sink.output_weights'], given)
trace = given

# ---- 1. The masks

def masks(n):
    query, key = np.arange(n)[:, None], np.arange(n)
    causal, near, first = key <= query, key >= query + 1 - width, key < kept
    return causal & near, causal & (near | first)

window_mask, first_mask = masks(len(ids))

show('first_mask[0]', first_mask[0], [
    True, False, False, False, False, False, False, False, False, False, False, False, False, False,
    False, False, False, False, False, False,
])

# ---- 2. What is forgotten

def softmax(a):
    e = np.exp(a - a.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)

def linear(scope, name, x):
    return x @ given[f"{scope}.{name}_weights"] + given[f"{scope}.{name}_bias"]

def norm(scope, x):
    distance = x - x.mean(axis=-1, keepdims=True)
    normalized = distance / np.sqrt((distance ** 2).mean(axis=-1, keepdims=True) + 1e-5)
    return normalized * given[f"{scope}.gain"] + given[f"{scope}.bias"]

def attend(q, k, v, mask, sink=None):
    scores = np.where(mask, q @ k.T / np.sqrt(q.shape[-1]), -np.inf)
    if sink is not None:
        scores = np.hstack([scores, np.full((len(q), 1), sink)])
    return softmax(scores)[:, :len(k)] @ v

def read(scope, ids, mask, layers=2, heads=4):
    table = given[f"{scope}.token_embedding"]
    x = table[ids] + given[f"{scope}.position_embedding.table"][:len(ids)]
    for i in range(layers):
        layer = f"{scope}.layers.{i}"
        y = norm(f"{layer}.norm1", x)
        shares = [np.hsplit(linear(f"{layer}.self_attn", name, y), heads)
                  for name in ("query", "key", "value")]
        sinks = given.get(f"{layer}.self_attn.sinks", [None] * heads)
        contexts = [attend(*share, mask, sink) for *share, sink in zip(*shares, sinks)]
        x = x + linear(f"{layer}.self_attn", "output", np.hstack(contexts))
        hidden = linear(f"{layer}.feed_forward", "hidden", norm(f"{layer}.norm2", x))
        x = x + linear(f"{layer}.feed_forward", "output", np.maximum(hidden, 0))
    output = given.get(f"{scope}.output_weights", table.T)
    return keep(f"{scope}.chances", softmax(norm(f"{scope}.norm", x) @ output))

causal = np.tri(len(ids), dtype=bool)
all_chances = read("all", ids, causal)
window_chances = read("window", ids, window_mask)
with_first_chances = read("with_first", ids, first_mask)

show('all.chances[0][:24]', all_chances[0][:24], [
    0.0000, 0.0001, 0.0000, 0.0000, 0.0001, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000,
    0.0003, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.3342, 0.3309, 0.3335, 0.0000, 0.0000,
])
show('window.chances[0][:24]', window_chances[0][:24], [
    0.0000, 0.0001, 0.0000, 0.0000, 0.0001, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000,
    0.0003, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.3342, 0.3309, 0.3335, 0.0000, 0.0000,
])
show('with_first.chances[0][:24]', with_first_chances[0][:24], [
    0.0000, 0.0001, 0.0000, 0.0000, 0.0001, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000,
    0.0003, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.3342, 0.3309, 0.3335, 0.0000, 0.0000,
])

# ---- 3. How far two layers reach

reach_one = window_mask * 1.0
reach_two = (reach_one @ reach_one > 0) * 1.0
reach_by_one, reach_by_two = reach_one[-1].sum(), reach_two[-1].sum()

show('reach.by_one', reach_by_one, 6)
show('reach.by_two', reach_by_two, 11)

# ---- 4. A head that has nothing to look for

echo_window_mask, echo_first_mask = masks(len(echo_ids))
echo_causal = np.tri(len(echo_ids), dtype=bool)

def read_letters(scope, mask):
    return read(f"echo.{scope}", echo_ids, mask, layers=1, heads=1)

letters_all = read_letters("all", echo_causal)
letters_window = read_letters("window", echo_window_mask)
letters_first = read_letters("with_first", echo_first_mask)
letters_sink = read_letters("sink", echo_causal)
letters_sink_window = read_letters("sink_in_window", echo_window_mask)
echo_lost = np.abs(letters_window - letters_all).max(axis=1)
echo_back = np.abs(letters_first - letters_all).max(axis=1)
echo_lost_with_sink = np.abs(letters_sink_window - letters_sink).max(axis=1)

show('echo.lost', echo_lost, [
    0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0680, 0.0363, 0.0930, 0.0711, 0.0000,
    0.1207, 0.0000, 0.1604, 0.1185,
])
show('echo.back', echo_back, [
    0.000e+00, 0.000e+00, 0.000e+00, 0.000e+00, 0.000e+00, 0.000e+00, 0.000e+00, 3.059e-12, 1.248e-05,
    8.498e-07, 1.025e-09, 8.060e-06, 3.806e-09, 4.915e-05, 4.643e-09, 3.096e-07,
])

# ---- 5. A prompt in chunks

head = [keep(f"chunk.{name}", trace[f"window.layers.0.self_attn.head.0.{name}"])
        for name in ("keys", "values")]
queries = keep("chunk.queries", trace["window.layers.0.self_attn.head.0.queries"][15:])
n, m = len(queries), len(ids)
query, key = np.arange(n)[:, None], np.arange(m)

def mask_of_queries(before):
    own = query + before
    return (key <= own) & (key >= own + 1 - width)

chunk_mask = mask_of_queries(m - n)
chunk_context = attend(queries, *head, chunk_mask)
chunk_top_left_context = attend(queries, *head, mask_of_queries(0))
chunk_off = np.abs(chunk_top_left_context - chunk_context).max()

show('chunk.off', chunk_off, 1.6188)

print("all as on the page")
