"""Questions of everyday life and of the world, which a collection of documents says nothing about,
but for a few by chance. What a search finds for them shows what chance finds in that collection.
"""

from __future__ import annotations

ENGLISH = """\
How long should a turkey of five kilos be roasted?
Who scored the winning goal in the final of 1974?
What is the monthly fee for the family plan of the gym?
How do I remove red wine stains from a carpet?
Which actor played the villain in the third movie?
What is the boiling point of ethanol?
When does the last ferry to the island leave?
How many strings does a standard harp have?
What was the name of the captain's dog?
Why does my washing machine stop before spinning?
How is the interest on a savings account taxed?
Who painted the ceiling of the chapel?
What does the warranty of the phone cover?
How many eggs does a sea turtle lay?
What should be done when a child has a high fever?
In which year did the band release its second album?
Which planet has the shortest day?
What type of oil does the engine of the truck need?
How much did the company pay for the startup?
Where was the treaty between the two kings signed?
What is the recommended dose for adults?
Who designed the uniform of the guards?
What percentage of voters supported the mayor?
How can a sourdough starter be kept alive?
What caused the collapse of the bridge?
How far is the nearest galaxy?
Which vitamins are found in oranges?
How many people attended the opening ceremony?
What is the difference between a violin and a viola?
Who inherited the estate after the duke died?
What kind of fish lives in the deepest lake?
How do I reset the password of my router?
What led the tribe to leave its homeland?
What are the rules for offside in football?
When was the university library renovated?
Which language do the people in the mountains speak?
What is the maximum speed on country roads?
How is paper recycled?
What role did the general play in the revolt?
Which team plays its home games in the old stadium?
What do bees use to build their combs?
How many employees were dismissed last spring?
""".splitlines()

CHINESE = """\
五公斤的火鸡要烤多长时间？
谁在1974年的决赛中打进了制胜球？
健身房家庭套餐每月的费用是多少？
怎样去除地毯上的红酒渍？
哪位演员在第三部电影中扮演反派？
乙醇的沸点是多少？
开往小岛的最后一班渡轮几点出发？
标准竖琴有多少根弦？
船长的狗叫什么名字？
洗衣机为什么在脱水前停止？
储蓄账户的利息如何纳税？
谁为礼拜堂画了天顶画？
手机的保修范围包括什么？
海龟一次产多少枚卵？
孩子发高烧时应该怎么办？
这支乐队哪一年发行了第二张专辑？
哪颗行星的一天最短？
这辆卡车的发动机需要什么机油？
公司花了多少钱收购那家初创企业？
两位国王之间的条约在哪里签订？
成人的推荐剂量是多少？
卫兵的制服是谁设计的？
有百分之几的选民支持市长？
怎样保存酸面团酵头？
大桥倒塌的原因是什么？
最近的星系有多远？
橙子里含有哪些维生素？
有多少人参加了开幕式？
小提琴和中提琴有什么区别？
公爵死后谁继承了庄园？
最深的湖里生活着什么鱼？
如何重置路由器的密码？
是什么促使这个部落离开家园？
足球的越位规则是什么？
大学图书馆是什么时候翻修的？
山区的居民说哪种语言？
乡村公路的最高限速是多少？
纸张是如何回收的？
将军在起义中起了什么作用？
哪支球队在旧体育场进行主场比赛？
蜜蜂用什么筑巢？
去年春天有多少员工被解雇？
""".splitlines()
