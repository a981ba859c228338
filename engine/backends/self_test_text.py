"""The text on which KV formats are tried: prose, talk, numbers, a list, code and a letter."""

TEXT = """\
The lighthouse stood at the end of a long spit of gravel, three miles from the last house of the
village. Every evening the keeper walked up the hundred and twelve steps, wound the clockwork, and
lit the lamp. In winter the wind came from the north-east, and the glass had to be cleared of salt
twice a night. He wrote down the ships that passed: the name, the hour, the direction and the
weather. On the fourth of March he wrote that a schooner of two masts had anchored in the lee of
the island, although the harbour was less than two hours away. Nobody came ashore. On the fifth of
March the schooner was still there, and a boat with four men rowed twice around the island without
landing. The keeper, who had been alone since October, put on his good coat and went down to the
jetty to wait for them. When the boat came near he asked where they had come from and what they
were looking for. The oldest of the four answered that they had come to ask him the same question,
for according to their chart there was neither a lighthouse nor an island at this place, and they
had sailed for six days towards a light that should not exist.

"Then your chart is wrong," said the keeper.
"Our chart was drawn in your own harbour," said the old man, "by the woman who keeps the register.
She told us that nothing lies between the cape and the two rocks except open water."
"I know her. She sends me oil in spring and flour in autumn. How would she send flour to nothing?"
The youngest of them laughed, but the old man did not. He took a folded paper from his jacket and
laid it on the boards between them, with a stone on each corner so that the wind could not take it.
The keeper knelt down. There was the coast with every creek and every church, there was the spit of
gravel, and where his finger came to rest there was only a number in faint ink: 19.
"That is the depth," said the young man. "Nineteen fathoms."
"And yet you are standing on it," said the keeper.

Report of the water board for the third quarter. Between July and September the three pumping
stations moved 4,812,000 cubic metres of water, 6.4 percent more than in the same months of the
year before. The northern station ran for 1,950 hours, the southern one for 1,220, and the station
at the old mill for only 310, because its second pump was being repaired from 9 August to
21 September. The repair cost 38,400, of which the insurance paid 25,000. Electricity cost 71,655
altogether, or about 1.5 cents for each cubic metre. The highest level was measured on 17 September
at 06:40, when the gauge at the bridge showed 3.82 m; the alarm is given at 4.10 m. Three fields
near the mill were under water for two days. The board recommends to replace the gauge at the
bridge, which is 41 years old, and to buy a third pump for the northern station before next summer.

How to repair a bicycle tube:
1. Take the wheel out of the frame and let the rest of the air out of the tube.
2. Lift one side of the tyre over the rim with two levers, and pull the tube out.
3. Pump some air into the tube and hold it under water. Where bubbles rise, there is the hole.
4. Dry the tube, roughen the place around the hole with sandpaper, and spread the glue thinly.
5. Wait for five minutes, until the glue no longer shines. Then press the patch on firmly.
6. Run your fingers along the inside of the tyre. If you leave the thorn there, you will start
again at step 1 tomorrow.

def longest_run(values):
    \"\"\"Return the start and the length of the longest run of equal values.\"\"\"
    best_start, best_length = 0, 0
    start = 0
    for index in range(1, len(values) + 1):
        if index == len(values) or values[index] != values[start]:
            if index - start > best_length:
                best_start, best_length = start, index - start
            start = index
    return best_start, best_length


assert longest_run([]) == (0, 0)
assert longest_run([7]) == (0, 1)
assert longest_run([1, 1, 2, 2, 2, 3]) == (2, 3)

Dear Miriam, thank you for the seeds. I have put half of them in the ground already, along the wall
where the beans used to stand, and the other half I keep for the spring, in case the frost comes
early again. You ask whether the old pear tree is still alive. It is, although nobody understands
how. The trunk is hollow on the side of the street, so that the children of the neighbours keep
their treasures in it, and in the storm of last week it lost the large branch over the well. But
there are pears on it, small ones, more than on both of the young trees together. Father says that
a tree does not know how old it is. He is better, by the way. He walks to the mill and back every
morning, he complains about the coffee, and he has begun to read the newspaper aloud again, which I
take for a sign of health. On Sunday your brother came with the little one. She can say eleven
words now, and four of them are names of animals. She calls the cat "moon", and the moon she calls
"cat", and when we tried to correct her she looked at us with so much patience that we gave it up.
Write soon, and tell me whether the letters that I sent to the old address have found you. I wrote
about the house in one of them, and I should not like to decide without you.

Why does the moon look larger when it stands near the horizon? A camera shows that it does not: on
two photographs taken with the same lens, one in the evening and one at midnight, the disc has the
same size. The difference arises in our heads. One explanation says that we judge the size of a
thing by what stands beside it, and beside the rising moon there are trees and roofs, whose size we
know. Another says that we imagine the sky as a flattened dome, so that what stands low seems to be
farther away; and something that is farther away and yet covers the same angle must be larger. It
is easy to try this out. If you look at the rising moon through a rolled sheet of paper, so that
nothing else can be seen, it shrinks at once. And if you bend down and look at it backwards between
your legs, most people say, it is as small as at midnight. Neither explanation is complete, and the
question, which was asked in Greece more than two thousand years ago, has not been settled since.
"""

FIRST_PARAGRAPH = TEXT.split("\n\n")[0]
"""For a test that must be over in a second."""
