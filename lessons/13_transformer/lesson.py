"""Lesson 13: the whole Transformer, in NumPy: the lines of its page in their order, and the numbers that they start from.

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
keep('start', np.array([0]), given)
keep('source_ids', np.array([3, 9, 13, 17, 22, 2]), given)
keep('said', np.array([3, 34, 32, 51, 42, 2, 1]), given)
keep('encoder.layers.0.self_attn.query_bias', np.array([
    -0.01629638671875, -0.08111572265625, 0.03973388671875, 0.025054931640625, 0.019622802734375,
    -0.01323699951171875, 0.005855560302734375, 0.01325225830078125, -0.05224609375,
    -0.01529693603515625, -0.03277587890625, -0.1654052734375, -0.015167236328125, -0.017059326171875,
    -0.08831787109375, -0.044952392578125,
], float), given)
keep('encoder.layers.0.self_attn.key_bias', np.array([
    0.0028591156005859375, -0.0006299018859863281, -0.00684356689453125, -0.0008878707885742188,
    0.0018253326416015625, -0.004718780517578125, -0.0016202926635742188, 0.0005540847778320312,
    0.0006952285766601562, -0.0020656585693359375, 0.00414276123046875, -0.001026153564453125,
    -0.0015811920166015625, 0.0007719993591308594, -8.857250213623047e-05, -4.8995018005371094e-05,
], float), given)
keep('encoder.layers.0.self_attn.value_bias', np.array([
    -0.0135498046875, 0.032958984375, -0.0003998279571533203, 0.045318603515625, -0.01050567626953125,
    0.014434814453125, 0.09735107421875, -0.00035071372985839844, -0.00617218017578125,
    0.034576416015625, -0.0193939208984375, 0.045623779296875, 0.04901123046875, 0.00128936767578125,
    0.004077911376953125, -0.02557373046875,
], float), given)
keep('encoder.layers.0.self_attn.output_bias', np.array([
    0.029296875, -0.0061798095703125, -0.01555633544921875, 0.04266357421875, 0.007480621337890625,
    -0.0214080810546875, -0.021484375, -0.015625, -0.0101318359375, -0.005741119384765625,
    -0.013092041015625, -0.034423828125, 0.0345458984375, -0.0174407958984375, 0.0190277099609375,
    0.04022216796875,
], float), given)
keep('encoder.layers.0.norm1.gain', np.array([
    0.93701171875, 0.9931640625, 1.0126953125, 1.0947265625, 1.0390625, 1.041015625, 0.95166015625,
    0.89306640625, 1.00390625, 1.03515625, 1.07421875, 0.96142578125, 1.04296875, 0.986328125,
    1.025390625, 0.97119140625,
], float), given)
keep('encoder.layers.0.norm1.bias', np.array([
    0.0247650146484375, -0.0035686492919921875, -0.0059967041015625, 0.059906005859375,
    -0.007434844970703125, -0.010894775390625, -0.0196380615234375, -0.0347900390625, -0.02459716796875,
    -0.00424957275390625, -0.043701171875, -0.03436279296875, 0.021148681640625, -0.00843048095703125,
    -0.0003018379211425781, 0.01195526123046875,
], float), given)
keep('encoder.layers.0.feed_forward.output_bias', np.array([
    0.0677490234375, -0.09881591796875, -0.125732421875, 0.09912109375, -0.061004638671875,
    0.06591796875, 0.02886962890625, 0.01226806640625, 0.1348876953125, -0.171142578125, -0.201904296875,
    0.0933837890625, -0.005096435546875, -0.1612548828125, -0.034332275390625, 0.1373291015625,
], float), given)
keep('encoder.layers.0.norm2.gain', np.array([
    0.9599609375, 0.9755859375, 1.0078125, 1.07421875, 1.05859375, 0.96337890625, 1.01953125,
    0.99072265625, 1.087890625, 0.93994140625, 1.048828125, 1.0146484375, 1.0400390625, 0.90625,
    0.99072265625, 0.9560546875,
], float), given)
keep('encoder.layers.0.norm2.bias', np.array([
    0.0154266357421875, 0.0036907196044921875, -0.022216796875, 0.03619384765625, 0.02056884765625,
    -0.0236663818359375, -0.0140838623046875, -0.037841796875, -0.0181732177734375, 0.006378173828125,
    -0.03643798828125, -0.01450347900390625, 0.05084228515625, 0.0112152099609375, 0.0071258544921875,
    -0.0163421630859375,
], float), given)
keep('encoder.layers.1.self_attn.query_bias', np.array([
    -0.047332763671875, 0.0709228515625, 0.047149658203125, 0.0193939208984375, 0.062347412109375,
    -0.058319091796875, 0.12225341796875, -0.0499267578125, -0.044525146484375, 0.037689208984375,
    0.1201171875, -0.007740020751953125, 0.01212310791015625, -0.06292724609375, 0.06732177734375,
    0.033416748046875,
], float), given)
keep('encoder.layers.1.self_attn.key_bias', np.array([
    -0.0011081695556640625, 0.0002218484878540039, 0.004085540771484375, -0.0020542144775390625,
    5.793571472167969e-05, -0.0001062154769897461, -0.00014925003051757812, -0.0011119842529296875,
    0.0004711151123046875, -0.002262115478515625, 0.00021564960479736328, -0.0006513595581054688,
    0.0009059906005859375, 0.002254486083984375, 5.6624412536621094e-05, 0.00046062469482421875,
], float), given)
keep('encoder.layers.1.self_attn.value_bias', np.array([
    -0.006130218505859375, -0.00946044921875, 0.03717041015625, 0.0030612945556640625,
    0.0006737709045410156, 0.01074981689453125, 0.0202484130859375, -0.004047393798828125,
    0.007587432861328125, -0.019439697265625, -0.02154541015625, 0.002117156982421875,
    0.0031604766845703125, -0.016326904296875, -0.0162200927734375, 0.0278778076171875,
], float), given)
keep('encoder.layers.1.self_attn.output_bias', np.array([
    0.009674072265625, -0.044830322265625, -0.02276611328125, 0.0292510986328125, 0.035003662109375,
    -0.01299285888671875, -0.01155853271484375, -0.0203094482421875, -0.03668212890625,
    -0.00103759765625, 0.0014514923095703125, -0.0156402587890625, 0.0251312255859375, 0.0274658203125,
    0.0290985107421875, 0.0005040168762207031,
], float), given)
keep('encoder.layers.1.norm1.gain', np.array([
    0.91650390625, 0.9931640625, 1.00390625, 1.099609375, 1.080078125, 0.98974609375, 1.046875,
    0.9833984375, 1.0458984375, 0.9140625, 0.9931640625, 1.02734375, 1.0537109375, 0.96484375,
    1.0400390625, 1.0078125,
], float), given)
keep('encoder.layers.1.norm1.bias', np.array([
    0.011260986328125, -0.045501708984375, -0.02734375, 0.030120849609375, 0.02947998046875,
    -0.01013946533203125, -0.012298583984375, -0.017822265625, -0.0386962890625, -0.00775146484375,
    -0.005115509033203125, -0.01256561279296875, 0.0247650146484375, 0.03411865234375, 0.032684326171875,
    -0.0051116943359375,
], float), given)
keep('encoder.layers.1.feed_forward.output_bias', np.array([
    0.07769775390625, -0.157958984375, -0.1263427734375, 0.05755615234375, -0.04644775390625,
    0.06085205078125, 0.05755615234375, 0.0298004150390625, 0.0997314453125, -0.1815185546875,
    -0.1719970703125, 0.12451171875, -0.052001953125, -0.15576171875, -0.0287322998046875,
    0.118408203125,
], float), given)
keep('encoder.layers.1.norm2.gain', np.array([
    1.119140625, 1.1123046875, 1.0927734375, 1.2626953125, 1.3271484375, 1.1162109375, 1.1591796875,
    1.1767578125, 1.166015625, 1.0439453125, 1.130859375, 1.1787109375, 1.2158203125, 1.306640625,
    1.1044921875, 1.1025390625,
], float), given)
keep('encoder.layers.1.norm2.bias', np.array([
    0.0017175674438476562, 0.01953125, -0.029022216796875, -0.022064208984375, 0.07403564453125,
    -0.03155517578125, -0.0246124267578125, 0.0243988037109375, 0.030609130859375, 0.032196044921875,
    -0.01061248779296875, 0.02001953125, -0.00878143310546875, -0.03826904296875, -0.0195159912109375,
    0.0309906005859375,
], float), given)
keep('decoder.layers.0.self_attn.query_bias', np.array([
    0.208251953125, 0.13232421875, -0.1422119140625, -0.2196044921875, 0.145751953125, -0.1727294921875,
    0.047943115234375, -0.1748046875, 0.053192138671875, -0.1494140625, -0.1685791015625,
    0.049835205078125, 0.14990234375, -0.1351318359375, -0.09637451171875, 0.0853271484375,
], float), given)
keep('decoder.layers.0.self_attn.key_bias', np.array([
    -0.00032830238342285156, -0.003437042236328125, -0.0009164810180664062, -0.0003693103790283203,
    -0.003192901611328125, -0.0035343170166015625, -0.003936767578125, 0.001956939697265625,
    -0.0010652542114257812, 0.00034356117248535156, 0.00310516357421875, -0.005107879638671875,
    -0.00171661376953125, 0.0045013427734375, -0.004543304443359375, 0.0027446746826171875,
], float), given)
keep('decoder.layers.0.self_attn.value_bias', np.array([
    -0.004913330078125, -0.005462646484375, 0.03436279296875, -0.005840301513671875, 0.0246124267578125,
    0.0606689453125, -0.05059814453125, 0.0177459716796875, -0.0180816650390625, -0.00714874267578125,
    -0.0311279296875, 0.037139892578125, -0.0272979736328125, 0.0248565673828125, 0.0180206298828125,
    -0.038330078125,
], float), given)
keep('decoder.layers.0.self_attn.output_bias', np.array([
    -0.07598876953125, -0.0236053466796875, 0.07330322265625, -0.032073974609375, 0.0204925537109375,
    -0.037689208984375, -0.045684814453125, 0.016448974609375, -0.00589752197265625, 0.0294952392578125,
    0.031463623046875, 0.041046142578125, 0.01256561279296875, -0.0286407470703125, 0.060882568359375,
    -0.06396484375,
], float), given)
keep('decoder.layers.0.norm1.gain', np.array([
    1.0458984375, 1.0087890625, 1.0439453125, 0.88134765625, 1.0234375, 1.12890625, 1.0166015625,
    1.087890625, 1.0068359375, 1.1474609375, 0.9853515625, 1.16015625, 1.0380859375, 1.0283203125,
    0.9765625, 0.93017578125,
], float), given)
keep('decoder.layers.0.norm1.bias', np.array([
    0.03057861328125, -0.0013837814331054688, 0.051910400390625, -0.0145111083984375,
    -0.0232696533203125, 0.0284271240234375, -0.055999755859375, 0.016845703125, -0.03924560546875,
    0.042266845703125, 0.048553466796875, 0.00569915771484375, 0.0006651878356933594, 0.0157928466796875,
    0.0462646484375, 0.00934600830078125,
], float), given)
keep('decoder.layers.0.cross_attn.query_bias', np.array([
    -0.055450439453125, -0.060546875, -0.0214691162109375, 0.2474365234375, 0.09912109375,
    -0.058074951171875, 0.0064239501953125, 0.060089111328125, -0.0814208984375, -0.044708251953125,
    0.1357421875, -0.048065185546875, -0.10467529296875, -0.1019287109375, -0.01611328125,
    -0.0170135498046875,
], float), given)
keep('decoder.layers.0.cross_attn.key_bias', np.array([
    -0.0033817291259765625, -0.0007867813110351562, -0.0004987716674804688, -0.0008974075317382812,
    -0.0034332275390625, 0.00022554397583007812, 0.00493621826171875, 0.0018863677978515625,
    0.002391815185546875, 0.00278472900390625, 0.0030574798583984375, -0.0006642341613769531,
    0.00650787353515625, 0.0016679763793945312, 0.0010623931884765625, 0.0040283203125,
], float), given)
keep('decoder.layers.0.cross_attn.value_bias', np.array([
    -0.02227783203125, -0.0010118484497070312, -0.003875732421875, 0.023712158203125,
    0.004154205322265625, 0.0210113525390625, 0.041259765625, -0.0021533966064453125, 0.029632568359375,
    0.03692626953125, -0.031402587890625, -0.00977325439453125, -0.022796630859375, 0.02423095703125,
    0.0290985107421875, 0.03338623046875,
], float), given)
keep('decoder.layers.0.cross_attn.output_bias', np.array([
    0.0163116455078125, 0.0275421142578125, 0.0391845703125, -0.0014514923095703125, -0.04412841796875,
    0.0027561187744140625, -0.07666015625, 0.0007243156433105469, -0.0147705078125, 0.05181884765625,
    -0.040435791015625, 0.0074310302734375, 0.0097198486328125, -0.01163482666015625, 0.052337646484375,
    -0.00604248046875,
], float), given)
keep('decoder.layers.0.norm2.gain', np.array([
    0.98486328125, 0.93310546875, 1.03515625, 0.89794921875, 1.033203125, 0.95068359375, 0.99267578125,
    1.0556640625, 0.9912109375, 1.126953125, 0.96337890625, 1.12109375, 1.0263671875, 1.037109375,
    0.931640625, 0.87939453125,
], float), given)
keep('decoder.layers.0.norm2.bias', np.array([
    0.049560546875, 0.053131103515625, 0.058197021484375, 0.0198974609375, -0.03082275390625,
    0.037445068359375, -0.051300048828125, 0.0196380615234375, 0.019195556640625, 0.08685302734375,
    -0.0341796875, 0.024871826171875, 0.0247802734375, 0.027130126953125, 0.06976318359375,
    0.0499267578125,
], float), given)
keep('decoder.layers.0.feed_forward.output_bias', np.array([
    0.1788330078125, 0.06219482421875, 0.10986328125, -0.11578369140625, 0.06329345703125,
    0.1995849609375, -0.1566162109375, 0.1473388671875, -0.09539794921875, 0.0118255615234375,
    0.07354736328125, -0.0099334716796875, -0.09344482421875, -0.12841796875, 0.06439208984375,
    -0.1339111328125,
], float), given)
keep('decoder.layers.0.norm3.gain', np.array([
    0.873046875, 0.9990234375, 1.1240234375, 0.90625, 0.93798828125, 1.0478515625, 0.95361328125,
    0.95849609375, 0.9990234375, 1.0302734375, 1.10546875, 1.060546875, 0.994140625, 0.9775390625,
    0.82421875, 0.85498046875,
], float), given)
keep('decoder.layers.0.norm3.bias', np.array([
    -0.0019330978393554688, 0.013397216796875, 0.0124664306640625, 0.0093841552734375, 0.04034423828125,
    0.0152130126953125, -0.0014514923095703125, -0.01520538330078125, 0.07464599609375,
    -0.01190185546875, -0.060760498046875, -0.006267547607421875, -0.00441741943359375,
    -0.008575439453125, -0.00943756103515625, -0.002593994140625,
], float), given)
keep('decoder.layers.1.self_attn.query_bias', np.array([
    0.048858642578125, -0.01531219482421875, 0.047454833984375, -0.039337158203125, 0.07177734375,
    -0.048126220703125, -0.01515960693359375, 0.0670166015625, 0.08355712890625, 0.129150390625,
    -0.144287109375, 0.0865478515625, 0.1434326171875, -0.004119873046875, 0.03009033203125,
    0.12744140625,
], float), given)
keep('decoder.layers.1.self_attn.key_bias', np.array([
    -0.0011358261108398438, -0.0008559226989746094, -0.0025730133056640625, -0.0017375946044921875,
    -0.0080413818359375, 0.0009784698486328125, -0.002513885498046875, -0.002025604248046875,
    -0.00730133056640625, -0.002033233642578125, -0.0033435821533203125, 0.0032405853271484375,
    -0.001163482666015625, 0.0002486705780029297, 0.005084991455078125, 0.00023877620697021484,
], float), given)
keep('decoder.layers.1.self_attn.value_bias', np.array([
    0.057281494140625, 0.0081787109375, 0.007701873779296875, -0.01540374755859375, -0.12017822265625,
    -0.024871826171875, 0.00646209716796875, 0.035675048828125, -0.04107666015625, -0.016143798828125,
    -0.01512908935546875, -0.023590087890625, 0.020782470703125, -0.04669189453125, 0.01473236083984375,
    0.0458984375,
], float), given)
keep('decoder.layers.1.self_attn.output_bias', np.array([
    -0.01137542724609375, -0.0579833984375, 0.01561737060546875, 0.0013132095336914062,
    0.006626129150390625, 0.0187225341796875, 0.046722412109375, 0.0027751922607421875, 0.1185302734375,
    -0.0758056640625, -0.049407958984375, 0.02825927734375, -0.004947662353515625, -0.016448974609375,
    0.05230712890625, -0.0274505615234375,
], float), given)
keep('decoder.layers.1.norm1.gain', np.array([
    0.896484375, 1.0517578125, 1.171875, 0.91015625, 0.98095703125, 1.0810546875, 1.0537109375,
    1.0517578125, 1.171875, 1.1201171875, 1.166015625, 1.1689453125, 1.2041015625, 1.078125,
    0.95849609375, 0.94384765625,
], float), given)
keep('decoder.layers.1.norm1.bias', np.array([
    -0.01197052001953125, -0.08172607421875, -0.019622802734375, -0.03741455078125, -0.01216888427734375,
    0.01123809814453125, 0.040069580078125, -0.005687713623046875, 0.0855712890625, -0.0518798828125,
    -0.058197021484375, 0.005878448486328125, 0.04046630859375, -0.01039886474609375, 0.07342529296875,
    -0.04132080078125,
], float), given)
keep('decoder.layers.1.cross_attn.query_bias', np.array([
    0.052978515625, -0.0906982421875, -0.06768798828125, -0.047698974609375, -0.045196533203125,
    -0.057037353515625, 0.08355712890625, -0.1287841796875, -0.1463623046875, 0.0172271728515625,
    0.0241546630859375, -0.051910400390625, 0.09417724609375, -0.1644287109375, -0.06597900390625,
    -0.06805419921875,
], float), given)
keep('decoder.layers.1.cross_attn.key_bias', np.array([
    0.0013265609741210938, -0.00476837158203125, -0.0030651092529296875, -0.0057525634765625,
    0.004302978515625, 0.0020465850830078125, 0.0009665489196777344, -0.00555419921875,
    0.007720947265625, 0.002742767333984375, 0.00016808509826660156, 0.0009627342224121094,
    0.0012655258178710938, 0.005092620849609375, 0.0032444000244140625, -0.0005221366882324219,
], float), given)
keep('decoder.layers.1.cross_attn.value_bias', np.array([
    0.036834716796875, -0.03399658203125, -0.00467681884765625, -0.0214691162109375,
    -0.001026153564453125, 0.009246826171875, -0.02593994140625, -0.05255126953125,
    -0.0015077590942382812, 0.0013713836669921875, 0.0014781951904296875, -0.0220794677734375,
    -0.032501220703125, -0.0283355712890625, 0.04052734375, 0.04248046875,
], float), given)
keep('decoder.layers.1.cross_attn.output_bias', np.array([
    -0.01070404052734375, -0.008636474609375, -0.08953857421875, -0.0179443359375, -0.037353515625,
    0.0033588409423828125, 0.040679931640625, -0.0626220703125, 0.03680419921875, 0.085693359375,
    -0.0021991729736328125, 0.02215576171875, 0.0196533203125, -0.00991058349609375, 0.0728759765625,
    -0.0188751220703125,
], float), given)
keep('decoder.layers.1.norm2.gain', np.array([
    0.95654296875, 1.1513671875, 1.1259765625, 0.9287109375, 0.8515625, 0.8173828125, 0.98828125,
    0.98291015625, 0.861328125, 1.0068359375, 1.03125, 1.1796875, 1.1259765625, 0.98486328125,
    1.0048828125, 1.029296875,
], float), given)
keep('decoder.layers.1.norm2.bias', np.array([
    0.021881103515625, 0.06787109375, -0.10125732421875, 0.021453857421875, 0.006801605224609375,
    0.015777587890625, 0.03271484375, -0.031585693359375, 0.087158203125, 0.10809326171875,
    -0.06390380859375, -0.009033203125, 0.0297393798828125, 0.033355712890625, -0.007965087890625,
    -0.03533935546875,
], float), given)
keep('decoder.layers.1.feed_forward.output_bias', np.array([
    0.130859375, 0.03582763671875, -0.0712890625, -0.07366943359375, 0.04888916015625, 0.10247802734375,
    -0.0662841796875, 0.0963134765625, 0.10699462890625, -0.0035724639892578125, 0.04864501953125,
    0.006801605224609375, -0.06768798828125, -0.08154296875, -0.01467132568359375, -0.04840087890625,
], float), given)
keep('decoder.layers.1.norm3.gain', np.array([
    1.857421875, 2.119140625, 2.212890625, 2.0546875, 2.046875, 2.16015625, 2.361328125, 2.505859375,
    1.90234375, 2.064453125, 2.03515625, 2.33203125, 2.583984375, 2.240234375, 2.08984375, 2.234375,
], float), given)
keep('decoder.layers.1.norm3.bias', np.array([
    -0.0214080810546875, 0.414306640625, 0.296630859375, 0.471923828125, 0.28955078125, -0.184814453125,
    -0.222412109375, -0.4921875, -0.1162109375, 0.353515625, -0.164794921875, -0.424072265625,
    0.37353515625, -0.222412109375, 0.2391357421875, 0.2548828125,
], float), given)
keep('cost.layers', np.array(6), given)
keep('cost.d', np.array(512), given)
keep('cost.d_ff', np.array(2048), given)
keep('cost.m', np.array(6), given)
keep('bike.source_ids', np.array([4, 9, 13, 21, 30, 2]), given)
keep('bike.greedy.ids', np.array([4, 34, 32, 60, 50, 2, 1]), given)
keep('bike.beam.ids', np.array([4, 34, 31, 59, 49, 2, 1]), given)

# ---- 1. From ids to vectors

def positions(n, d):
    angles = np.outer(np.arange(n), 10000 ** (-2 * np.arange(d // 2) / d))
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(n, d)

def embed(ids):
    d = table.shape[1]
    return table[ids] * np.sqrt(d) + positions(len(ids), d)

source = keep("source_embedding.output", embed(source_ids))

show('source_embedding.output[0]', source_embedding_output[0], [
    -1.5361, 1.6094, 0.4822, 0.4336, 1.6211, 0.7570, 2.8359, 4.9473, -1.4121, 1.1002, -1.6250, 1.0067,
    1.9912, 0.2139, -5.7930, 0.6021,
])

# ---- 2. The parts of a layer

def linear(scope, name, x):
    return x @ given[f"{scope}.{name}_weights"] + given[f"{scope}.{name}_bias"]

def softmax(a):
    e = np.exp(a - a.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)

def layer_norm(scope, x):
    distance = x - x.mean(axis=-1, keepdims=True)
    variance = (distance ** 2).mean(axis=-1, keepdims=True)
    normalized = distance / np.sqrt(variance + 1e-5)
    return normalized * given[f"{scope}.gain"] + given[f"{scope}.bias"]

def feed_forward(scope, x):
    return linear(scope, "output", np.maximum(linear(scope, "hidden", x), 0))

def attend(query, key, value, mask=True, heads=2):
    contexts = []
    for q, k, v in zip(*(np.hsplit(a, heads) for a in (query, key, value))):
        scores = q @ k.T / np.sqrt(q.shape[-1])
        contexts.append(softmax(np.where(mask, scores, -np.inf)) @ v)
    return np.hstack(contexts)

def multi_head(scope, x, memory, mask=True):
    context = attend(linear(scope, "query", x), linear(scope, "key", memory),
                     linear(scope, "value", memory), mask)
    return linear(scope, "output", context)

# ---- 3. Encoder and decoder

def encoder(x):
    for i in range(2):
        layer = f"encoder.layers.{i}"
        x = layer_norm(f"{layer}.norm1", x + multi_head(f"{layer}.self_attn", x, x))
        x = layer_norm(f"{layer}.norm2", x + feed_forward(f"{layer}.feed_forward", x))
    return x

def decoder(x, memory):
    n = len(x)
    causal = np.arange(n) <= np.arange(n)[:, None]
    for i in range(2):
        layer = f"decoder.layers.{i}"
        attended = multi_head(f"{layer}.self_attn", x, x, causal)
        x = layer_norm(f"{layer}.norm1", x + attended)
        attended = multi_head(f"{layer}.cross_attn", x, memory)
        x = layer_norm(f"{layer}.norm2", x + attended)
        x = layer_norm(f"{layer}.norm3", x + feed_forward(f"{layer}.feed_forward", x))
    return x

memory = keep("encoder.output", encoder(source))

show('encoder.output[0]', encoder_output[0], [
    -0.8652, 0.2134, 0.3611, 0.6802, 0.4688, 0.7861, -0.6504, 1.0039, -1.2663, 0.2348, -1.7693, -0.1705,
    3.3673, -1.3761, -1.0207, 0.2000,
])

# ---- 4. Training: the whole target at once

def predict_next(target_ids, memory):
    return decoder(embed(target_ids), memory) @ table.T

target_ids = np.concatenate([start, said[:-1]])
logits = keep("generator.logits", predict_next(target_ids, memory))
next_ids = logits.argmax(axis=1)

show('target_ids', target_ids, [0, 3, 34, 32, 51, 42, 2])
show('generator.logits[0][:24]', generator_logits[0][:24], [
    -1.5347, 5.2525, -1.2728, 17.5048, 6.7554, 3.6275, 5.2167, -2.8364, 3.7988, 3.0696, -1.0696, -0.5134,
    -2.0694, 0.0427, 3.4752, 0.3390, -1.0131, 2.0172, -0.3351, 1.8237, -1.0363, 1.4819, 0.7190, 0.9010,
])
show('next_ids', next_ids, [3, 34, 32, 51, 42, 2, 1])

# ---- 5. Writing: one token after the other

def greedy(memory, end=1, max_tokens=16):
    ids = [start[0]]
    while ids[-1] != end and len(ids) <= max_tokens:
        logits = predict_next(np.array(ids), memory)
        ids.append(logits[-1].argmax())
    return np.array(ids[1:])

said = greedy(memory)

show('said', said, [3, 34, 32, 51, 42, 2, 1])

# ---- 6. Writing with a key/value cache

def decoder_step(x, memory_cache, cache):
    """x: the newest token, (1, d). cache: keys and values before it, by layer."""
    for i in range(2):
        layer = f"decoder.layers.{i}"
        self_attn, cross_attn = f"{layer}.self_attn", f"{layer}.cross_attn"
        key, value = linear(self_attn, "key", x), linear(self_attn, "value", x)
        if i in cache:
            key, value = np.vstack([cache[i][0], key]), np.vstack([cache[i][1], value])
        cache[i] = key, value
        context = attend(linear(self_attn, "query", x), *cache[i])
        x = layer_norm(f"{layer}.norm1", x + linear(self_attn, "output", context))
        context = attend(linear(cross_attn, "query", x), *memory_cache[i])
        x = layer_norm(f"{layer}.norm2", x + linear(cross_attn, "output", context))
        x = layer_norm(f"{layer}.norm3", x + feed_forward(f"{layer}.feed_forward", x))
    return x

scopes = [f"decoder.layers.{i}.cross_attn" for i in range(2)]
memory_cache = [(linear(scope, "key", memory), linear(scope, "value", memory))
                for scope in scopes]
cache, rows = {}, []
for place in range(len(target_ids)):
    newest = embed(target_ids)[place : place + 1]
    rows.append(decoder_step(newest, memory_cache, cache) @ table.T)
cached_logits = np.vstack(rows)
cached_difference = np.abs(cached_logits - logits).max(axis=1)

show('cached.difference', cached_difference, [8.438e-15, 7.105e-15, 4.663e-15, 4.441e-15, 4.441e-15, 5.995e-15, 1.421e-14])

# ---- What goes wrong without it: the cost

k = cost_k = np.arange(len(said)) + 1
layers, d, d_ff, m = (given[f"cost.{name}"] for name in ("layers", "d", "d_ff", "m"))
cost_all = layers * (6 * k * d ** 2 + 2 * m * d ** 2 + 2 * k ** 2 * d + 2 * k * m * d
                     + 2 * k * d * d_ff)
cost_one = layers * (6 * d ** 2 + 2 * k * d + 2 * m * d + 2 * d * d_ff)
cost_memory = layers * 2 * m * d ** 2
cost_without_cache = cost_all.sum()
cost_with_cache = cost_memory + cost_one.sum()
cost_ratio = cost_without_cache / cost_with_cache

show('cost.k', cost_k, [1, 2, 3, 4, 5, 6, 7])
show('cost.all', cost_all, [40937472, 63012864, 85100544, 107200512, 129312768, 151437312, 173574144])
show('cost.one', cost_one, [22063104, 22069248, 22075392, 22081536, 22087680, 22093824, 22099968])
show('cost.memory', cost_memory, 18874368)
show('cost.without_cache', cost_without_cache, 750575616)
show('cost.with_cache', cost_with_cache, 173445120)
show('cost.ratio', cost_ratio, 4.3275)

# ---- What else can go wrong: the likeliest word is not the likeliest sentence

def beam_search(source_ids, width, end=1, max_tokens=16):
    memory = encoder(embed(source_ids))
    beam = [(0.0, [start[0]])]
    for _ in range(max_tokens):
        candidates = [sentence for sentence in beam if sentence[1][-1] == end]
        for total, ids in (sentence for sentence in beam if sentence[1][-1] != end):
            chances = softmax(predict_next(np.array(ids), memory)[-1])
            candidates += [(total + np.log(chance), [*ids, word])
                           for word, chance in enumerate(chances)]
        beam = sorted(candidates, reverse=True)[:width]
    return beam[0][1][1:]

def chances_of(ids, logits):
    return softmax(logits)[np.arange(len(ids)), ids]

bike_greedy_ids = beam_search(bike_source_ids, 1)
bike_beam_ids = beam_search(bike_source_ids, 2)
bike_greedy_chances = chances_of(bike_greedy_ids, bike_greedy_logits)
bike_greedy_log_probability = np.log(bike_greedy_chances).sum()
bike_greedy_probability = np.exp(bike_greedy_log_probability)
bike_beam_chances = chances_of(bike_beam_ids, bike_beam_logits)
bike_beam_log_probability = np.log(bike_beam_chances).sum()
bike_beam_probability = np.exp(bike_beam_log_probability)

show('bike.greedy.ids', bike_greedy_ids, [4, 34, 32, 60, 50, 2, 1])
show('bike.beam.ids', bike_beam_ids, [4, 34, 31, 59, 49, 2, 1])
show('bike.greedy.chances', bike_greedy_chances, [0.9999, 1.0000, 0.6191, 0.5681, 0.9999, 1.0000, 1.0000])
show('bike.greedy.probability', bike_greedy_probability, 0.3517)
show('bike.beam.chances', bike_beam_chances, [0.9999, 1.0000, 0.3805, 0.9999, 1.0000, 1.0000, 1.0000])
show('bike.beam.probability', bike_beam_probability, 0.3804)

print("all as on the page")
